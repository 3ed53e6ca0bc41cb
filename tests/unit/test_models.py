"""Every registered model: what the interface promises."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from recap.data.vocabulary.special import PAD
from recap.layers.positional import grid_table, sinusoid_table
from recap.models.registry import MODELS, build_model
from recap.models.transformer import Transformer

SMALL = {"d_model": 16, "heads": 2, "d_feed_forward": 24, "encoder_layers": 2, "decoder_layers": 2}
SIZES = {
    "xlan": {"d_model": 16, "heads": 2, "d_joint": 4, "encoder_layers": 2},
    "x_transformer": {**SMALL, "d_joint": 4},
    "up_down": {"d_model": 16, "d_word": 8, "d_attention": 6},
}
B, C, T, N, F, V = 3, 2, 6, 9, 7, 11
VARIANTS = [{"kind": kind, **SIZES.get(kind, SMALL)} for kind in MODELS] + [
    {"kind": "transformer", **SMALL, "norm": "post"},
    {"kind": "transformer", **SMALL, "layer_norm": "unbiased"},
    {"kind": "transformer", **SMALL, "visual_positions": "grid"},
    {"kind": "zodiac", **SMALL, "gate": "tanh"},
    {"kind": "zodiac", **SMALL, "gate": "none", "zeta": 0.0},
    {"kind": "zodiac", **SMALL, "gelu": False, "feed_forward_activation": "relu"},
    {"kind": "xlan", **SIZES["xlan"], "encoder_layers": 0, "decoder_attention": "conventional"},
    {"kind": "xlan", **SIZES["xlan"], "activation": "relu"},
    {"kind": "up_down", **SIZES["up_down"], "d_feature": 12, "word_activation": "relu"},
]


def name(config):
    usual = SIZES.get(config["kind"], SMALL)
    return "-".join(str(value) for key, value in config.items() if usual.get(key) != value)


@pytest.fixture(params=VARIANTS, ids=name)
def model(request):
    torch.manual_seed(0)
    return build_model(request.param, feature_size=F, vocabulary_size=V).double().eval()


GATED = [{"kind": "zodiac", **SMALL, "gate": gate} for gate in ("sigmoid", "tanh")]
SCOPES = [{**config, "rap_scope": scope} for scope in ("image", "global", "code") for config in GATED]


@pytest.fixture(params=VARIANTS + SCOPES, ids=name)
def any_reading(request):
    torch.manual_seed(0)
    return build_model(request.param, feature_size=F, vocabulary_size=V).double().eval()


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(B, N, F, generator=generator, dtype=torch.float64)
    mask = torch.ones(B, N, dtype=torch.bool)
    mask[1, 3:] = False
    tokens = torch.randint(3, V, (B, C, T), generator=generator)
    return features, mask, tokens


def log_probabilities(model, features, mask, tokens):
    return model.logits(model.decode(tokens, model.encode(features, mask))).log_softmax(-1)


def stepwise(model, features, mask, tokens):
    state = model.start(model.encode(features, mask))
    state = state.reorder(torch.zeros(tokens.shape[:2], dtype=torch.long))
    steps = []
    for word in tokens.unbind(-1):
        out, state = model.step(word, state)
        steps.append(out)
    return torch.stack(steps, 2)


def test_forward_and_backward_are_finite(model, batch):
    model.train()
    loss = -log_probabilities(model, *batch).mean()
    loss.backward()
    assert torch.isfinite(loss)
    missing = [key for key, p in model.named_parameters() if p.grad is None or not torch.isfinite(p.grad).all()]
    unused = "intensity_query" if any(getattr(m, "gate", "") == "none" for m in model.modules()) else None
    assert [key for key in missing if unused is None or unused not in key] == []


def test_step_equals_teacher_forcing(model, batch):
    torch.testing.assert_close(stepwise(model, *batch), log_probabilities(model, *batch), atol=1e-10, rtol=0)


def test_causal(model, batch):
    features, mask, tokens = batch
    changed = tokens.clone()
    changed[..., 4:] = 3 + (changed[..., 4:] - 2) % (V - 3)
    before, after = (log_probabilities(model, features, mask, words) for words in (tokens, changed))
    torch.testing.assert_close(before[..., :4, :], after[..., :4, :], atol=1e-12, rtol=0)
    assert (before[..., 4:, :] - after[..., 4:, :]).abs().max() > 1e-4


def test_masked_vectors_change_nothing(model, batch):
    features, mask, tokens = batch
    noisy = torch.where(mask[..., None], features, 100.0)
    torch.testing.assert_close(
        log_probabilities(model, noisy, mask, tokens), log_probabilities(model, *batch), atol=1e-12, rtol=0
    )
    if getattr(model, "visual_positions", "none") == "grid":
        return  # the number of vectors is the size of the grid
    more = torch.cat([features, torch.full((B, 2, F), 9.0, dtype=torch.float64)], 1)
    wider = torch.cat([mask, torch.zeros(B, 2, dtype=torch.bool)], 1)
    torch.testing.assert_close(
        log_probabilities(model, more, wider, tokens), log_probabilities(model, *batch), atol=1e-12, rtol=0
    )


def test_a_mask_that_hides_nothing_may_be_left_out_only_where_nothing_depends_on_it(any_reading, batch, monkeypatch):
    features, _, tokens = batch
    full = torch.ones(B, N, dtype=torch.bool)
    before = log_probabilities(any_reading, features, full, tokens), stepwise(any_reading, features, full, tokens)
    monkeypatch.setattr(Transformer, "_hiding", lambda self, mask: mask)
    after = log_probabilities(any_reading, features, full, tokens), stepwise(any_reading, features, full, tokens)
    torch.testing.assert_close(after, before, atol=1e-12, rtol=0)


def test_more_padding_of_captions_changes_nothing(any_reading, batch):
    features, mask, tokens = batch
    tokens = tokens.clone()
    tokens[1, 0, 3:] = PAD
    tokens[2, 1] = PAD  # an image with fewer captions
    longer = torch.nn.functional.pad(tokens, (0, 4), value=PAD)
    words = tokens != PAD
    memory = any_reading.encode(features, mask)
    found = [any_reading.decode(padded, memory)[:, :, :T][words] for padded in (tokens, longer)]
    real = [torch.nn.functional.pad(words[..., 1:], (0, end)) for end in (1, 5)]  # as training asks: words to be said
    found += [any_reading.decode_words(*asked, memory) for asked in zip((tokens, longer), real, strict=True)]
    same = [torch.allclose(*pair, atol=1e-12, rtol=0) for pair in (found[:2], found[2:])]
    # As released, `code` averages over padded rows as well.
    assert same == [getattr(any_reading, "counts_masks", False) is False] * 2


def test_more_padding_of_images_changes_nothing_but_what_counts_padding(any_reading, batch):
    if getattr(any_reading, "visual_positions", "none") == "grid":
        return  # the number of vectors is the size of the grid
    features, mask, tokens = batch
    more = torch.cat([features, torch.full((B, 2, F), 9.0, dtype=torch.float64)], 1)
    wider = torch.cat([mask, torch.zeros(B, 2, dtype=torch.bool)], 1)
    same = torch.allclose(
        log_probabilities(any_reading, more, wider, tokens), log_probabilities(any_reading, *batch), atol=1e-12, rtol=0
    )
    assert same is not getattr(any_reading, "counts_masks", False)


def test_a_caption_of_padding_alone_gives_finite_gradients(any_reading, batch):
    features, mask, tokens = batch
    tokens = tokens.clone()
    tokens[2, 1] = PAD
    any_reading.decode_words(tokens, tokens != PAD, any_reading.encode(features, mask)).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in any_reading.parameters() if p.grad is not None)


def test_batch_of_one_equals_batch_of_eight(model):
    generator = torch.Generator().manual_seed(2)
    features = torch.randn(8, N, F, generator=generator, dtype=torch.float64)
    mask = torch.ones(8, N, dtype=torch.bool)
    tokens = torch.randint(3, V, (8, C, T), generator=generator)
    together = log_probabilities(model, features, mask, tokens)
    for index in range(8):
        one = slice(index, index + 1)
        alone = log_probabilities(model, features[one], mask[one], tokens[one])
        torch.testing.assert_close(alone, together[one], atol=1e-12, rtol=0)


def test_captions_of_an_image_do_not_see_each_other(model, batch):
    features, mask, tokens = batch
    torch.testing.assert_close(
        log_probabilities(model, features, mask, tokens[:, :1]),
        log_probabilities(model, features, mask, tokens)[:, :1],
        atol=1e-12,
        rtol=0,
    )


def test_state_keeps_and_reorders(model, batch):
    features, mask, tokens = batch
    whole = stepwise(model, features, mask, tokens.flip(1))
    state = model.start(model.encode(features, mask)).reorder(torch.zeros(B, C, dtype=torch.long))
    _, state = model.step(tokens[..., 0], state)
    state = state.reorder(torch.tensor([[1, 0]] * B)).select(torch.tensor([2, 0]))
    out, _ = model.step(tokens.flip(1)[[2, 0], :, 1], state)
    torch.testing.assert_close(out, whole[[2, 0], :, 1], atol=1e-10, rtol=0)


def test_decoding_keeps_rare_words_under_bf16(model, batch):
    """Sampling from 16-bit probabilities would never say a rare word, and train another policy than the one scored."""
    features, mask, tokens = batch
    model.float()
    with torch.autocast("cpu", torch.bfloat16):
        out, _ = model.step(tokens[:, :1, 0], model.start(model.encode(features.float(), mask)))
    assert out.dtype == torch.float32
    torch.testing.assert_close(out.exp().sum(-1), torch.ones(B, 1), atol=1e-5, rtol=0)


def test_save_and_load(model, batch, tmp_path):
    expected = log_probabilities(model, *batch)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    model.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(log_probabilities(model, *batch), expected)


@pytest.mark.parametrize(
    ("kind", "millions"), [("transformer", 54.91), ("zodiac", 59.64), ("xlan", 75.2), ("x_transformer", 137.5)]
)
def test_parameters_at_coco_size(kind, millions):
    # The counted models have one id for <bos>, <eos> and <pad>, 9,487 words with <unk>: 9,488 ids.
    with torch.device("meta"):
        model = build_model({"kind": kind}, feature_size=2048, vocabulary_size=9488)
    digits = len(str(millions).partition(".")[2])
    assert round(sum(p.numel() for p in model.parameters()) / 1e6, digits) == millions


@pytest.mark.parametrize("scope", ["image", "global"])
def test_uncached_scopes_decode_a_growing_prefix(scope, batch):
    torch.manual_seed(0)
    config = {"kind": "zodiac", **SMALL, "rap_scope": scope}
    model = build_model(config, feature_size=F, vocabulary_size=V).double().eval()
    features, mask, tokens = batch
    steps = stepwise(model, features, mask, tokens)
    for length in (1, 4, T):
        prefix = log_probabilities(model, features, mask, tokens[..., :length])[..., -1, :]
        torch.testing.assert_close(steps[..., length - 1, :], prefix, atol=1e-12, rtol=0)


def test_the_released_average_decodes_under_one_mask_for_all_captions(batch):
    # Its denominator does not grow with the captions there, but does under teacher forcing; one caption tells nothing.
    torch.manual_seed(0)
    config = {"kind": "zodiac", **SMALL, "rap_scope": "code", "gate": "tanh"}
    model = build_model(config, feature_size=F, vocabulary_size=V).double().eval()
    features, mask, tokens = (x[:1] for x in batch)
    for captions in (1, 2):
        some = tokens[:, :captions, :4]
        last = [found(model, features, mask, some)[..., -1, :] for found in (stepwise, log_probabilities)]
        assert torch.allclose(*last, atol=1e-12, rtol=0) is (captions == 1)


def test_grid_positions_tell_cells_apart():
    codes = grid_table(7, 16)
    assert torch.cdist(codes, codes).add(10 * torch.eye(49)).min() > 0.1
    torch.testing.assert_close(codes[3 * 7 + 5], torch.cat([sinusoid_table(7, 8)[3], sinusoid_table(7, 8)[5]]))
    with pytest.raises(ValueError, match="divisible by 4"):
        grid_table(7, 10)
    model = build_model({"kind": "transformer", **SMALL, "visual_positions": "grid"}, feature_size=F, vocabulary_size=V)
    with pytest.raises(ValueError, match="an image has 8 vectors"):
        model.encode(torch.zeros(1, 8, F), torch.ones(1, 8, dtype=torch.bool))
