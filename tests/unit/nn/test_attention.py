"""One interface for every attention: masks, biases, packed rows."""

import math

import pytest
import torch

from recap.nn import fast
from recap.nn.attention import AdditiveAttention, MultiHeadAttention, attended
from recap.nn.rows import PackedIndex, Rows, causal_mask, is_causal, key_mask
from recap.papers.aoanet.model import AoAAttention
from recap.papers.m2.model import MemoryAttention
from recap.papers.xlan.model import XLinear
from recap.papers.xlan.settings import XLanModel
from recap.papers.zodiac.model import ZodiacMultiHead
from recap.papers.zodiac.settings import ZodiacModel

B, C, T, N, D, H = 2, 3, 4, 5, 8, 2
ZODIAC = ZodiacModel(kind="zodiac", d_model=D, heads=H, zodiac_dropout=0.0)
MAKERS = {
    "multi_head": lambda: MultiHeadAttention(d_model=D, heads=H),
    "zodiac": lambda: ZodiacMultiHead(ZODIAC, "prefix"),
    "x_linear": lambda: XLinear(XLanModel(kind="xlan", d_model=D, heads=H, d_joint=3)),
    "dot_product": lambda: MultiHeadAttention(
        d_model=D, heads=H, d_key=5, d_value=D // H, dropout=0.5, projected=False
    ),
    "projected": lambda: MultiHeadAttention(d_model=D, heads=H, d_key=5, d_value=3),
    "memory": lambda: MemoryAttention(d_model=D, heads=H, d_key=5, d_value=3, slots=4),
    "aoa": lambda: AoAAttention(
        d_model=D, heads=H, order="query_attended", attention_dropout=0.5, aoa_dropout=0.5
    ),
    "additive": lambda: AdditiveAttention(d_query=D, d_source=D, d_hidden=6),
}


@pytest.fixture(params=MAKERS)
def attention(request):
    torch.manual_seed(0)
    return MAKERS[request.param]().double().eval()


def randn(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def test_a_mask_that_hides_nothing_is_no_mask(attention):
    query, key_value = Rows(randn(B, C, T, D)), attention.key_value(Rows(randn(B, 1, N, D)))
    expected = attention(query, key_value).values
    assert expected.shape == (B, C, T, D)
    for shape in ((1, 1, 1, N), (B, 1, 1, N), (B, C, 1, N), (1, 1, T, N), (B, C, T, N)):
        mask = torch.ones(shape, dtype=torch.bool)
        torch.testing.assert_close(
            attention(query, key_value, attn_mask=mask).values, expected, atol=1e-12, rtol=0
        )


def test_masked_vectors_are_as_if_they_were_absent(attention):
    query, source = Rows(randn(B, C, T, D)), randn(B, 1, N, D)
    mask = key_mask(torch.tensor([True] * 3 + [False] * 2).expand(B, -1))
    masked = attention(query, attention.key_value(Rows(source)), attn_mask=mask).values
    absent = attention(query, attention.key_value(Rows(source[:, :, :3]))).values
    torch.testing.assert_close(masked, absent, atol=1e-12, rtol=0)


def test_each_caption_has_a_mask_of_its_own(attention):
    query, key_value = randn(B, C, T, D), attention.key_value(Rows(randn(B, 1, N, D)))
    mask = torch.rand(B, C, T, N) < 0.5
    mask[..., 0] = True
    together = attention(Rows(query), key_value, attn_mask=mask).values
    for caption in range(C):
        one = slice(caption, caption + 1)
        alone = attention(Rows(query[:, one]), key_value, attn_mask=mask[:, one]).values
        torch.testing.assert_close(together[:, one], alone, atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    "kind", ["multi_head", "zodiac", "x_linear", "dot_product", "projected", "memory", "aoa"]
)
def test_packed_rows_under_a_causal_mask_equal_padded_ones(kind, monkeypatch):
    monkeypatch.setattr("recap.papers.xlan.model.CHUNK", 100)  # several chunks
    torch.manual_seed(0)
    attention = MAKERS[kind]().double().eval()
    lengths = torch.tensor([[4, 1, 0], [2, 3, 4]])
    token_mask = torch.arange(T) < lengths[..., None]
    padded = Rows(randn(B, C, T, D))
    packed = Rows.pack(padded.values, PackedIndex(token_mask))
    mask = causal_mask(T, torch.device("cpu"))
    expected, found = (
        attention(rows, attention.key_value(rows), attn_mask=mask) for rows in (padded, packed)
    )
    assert found.values.shape == (int(lengths.sum()), D)
    torch.testing.assert_close(found.values, expected.values[token_mask], atol=1e-12, rtol=0)


@pytest.mark.parametrize("keys", [1, C])
@pytest.mark.parametrize("masked", [False, True])
def test_a_bias_is_added_to_the_scores(keys, masked):
    torch.manual_seed(0)
    attention = MultiHeadAttention(d_model=D, heads=H).double()
    query = Rows(randn(B, C, T, D))
    source = Rows(randn(B, keys, N, D))
    bias = randn(B, C, H, T, N).requires_grad_()
    k, v = attention.key_value(source)
    scores = query.map(attention.query).split_heads(H) @ k.mT / math.sqrt(D // H) + bias
    mask = None
    if masked:
        mask = key_mask(torch.tensor([True, True, False, True, False]).expand(B, -1))
        scores = scores.masked_fill(~mask[:, :, None], -torch.inf)
    expected = query.merge_heads(scores.softmax(-1) @ v).map(attention.output).values
    found = attention(query, (k, v), attn_mask=mask, attn_bias=bias).values
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)
    gradients = [
        torch.autograd.grad(out.sum(), bias, retain_graph=True)[0] for out in (found, expected)
    ]
    torch.testing.assert_close(*gradients, atol=1e-12, rtol=0)


def test_a_row_that_may_attend_to_nothing_is_finite(attention):
    query, key_value = Rows(randn(B, C, T, D)), attention.key_value(Rows(randn(B, 1, N, D)))
    mask = torch.zeros(B, 1, 1, N, dtype=torch.bool)
    found = attention(query, key_value, attn_mask=mask).values
    assert found.isfinite().all()


@pytest.mark.parametrize("masked", [False, True])
def test_the_gradient_in_bf16_is_that_of_plain_attention(masked, monkeypatch):
    torch.manual_seed(0)
    vectors = [torch.randn(2, H, n, D, dtype=torch.bfloat16, requires_grad=True) for n in (T, N, N)]
    mask = torch.rand(2, 1, T, N) < 0.7 if masked else None
    direction = torch.randn(2, H, T, D, dtype=torch.bfloat16)
    found = attended(*vectors, mask)
    assert "Flash" not in found.grad_fn.name()  # the fused one is many times slower
    ours = torch.autograd.grad(found, vectors, direction)
    monkeypatch.setattr(fast, "_enabled", False)
    plain = attended(*vectors, mask)
    assert "Flash" in plain.grad_fn.name()
    theirs = torch.autograd.grad(plain, vectors, direction)
    for a, b in zip((found, *ours), (plain, *theirs), strict=True):
        torch.testing.assert_close(a, b, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("keys", [1, C])
@pytest.mark.parametrize("kind", ["dot_product", "projected", "memory"])
def test_watched_weights_sum_to_one_and_change_nothing(kind, keys):
    torch.manual_seed(0)
    attention, seen = MAKERS[kind]().double().eval(), []
    query, key_value = Rows(randn(B, C, T, D)), attention.key_value(Rows(randn(B, keys, N, D)))
    mask = key_mask(torch.tensor([True, True, False, True, False]).expand(B, -1))
    expected = attention(query, key_value, attn_mask=mask).values
    handle = attention.weights.register_forward_hook(lambda _, inputs, out: seen.append(out))
    torch.testing.assert_close(
        attention(query, key_value, attn_mask=mask).values, expected, atol=1e-12, rtol=0
    )
    handle.remove()
    assert seen[0].shape == (B, C, H, T, key_value[0].shape[3])
    torch.testing.assert_close(seen[0].sum(-1), torch.ones(B, C, H, T, dtype=torch.float64))
    assert seen[0][..., [2, 4]].abs().max() == 0


def test_a_causal_mask_is_known_without_its_values_and_serves_a_training_after_inference():
    with torch.inference_mode():
        mask = causal_mask(23, torch.device("cpu"))
    query = torch.randn(2, 2, 23, 4, requires_grad=True)
    key, value = torch.randn(2, 2, 2, 23, 4)
    assert is_causal(mask) and not is_causal(mask.clone())
    known, read = attended(query, key, value, mask), attended(query, key, value, mask.clone())
    assert torch.equal(known, read)
    scores = query @ key.mT
    scores.masked_fill(~mask, -1.0).sum().backward()
