"""Packed words and shared caches give what the plain computations give."""

import pytest
import torch

from recap.decoding.beam import beam_search
from recap.layers.fast.packing import Words
from recap.models.registry import build_model
from recap.models.state import State

SMALL = {"d_model": 16, "heads": 2, "d_feed_forward": 24, "encoder_layers": 2, "decoder_layers": 2}
B, C, T, N, F, V = 3, 2, 6, 9, 7, 11
PAD, BOS, EOS = 0, 1, 2
VARIANTS = [
    {"kind": "transformer"},
    {"kind": "transformer", "norm": "post", "layer_norm": "unbiased"},
    {"kind": "zodiac"},
    {"kind": "zodiac", "gate": "none"},
    {"kind": "zodiac", "rap_scope": "image"},
    {"kind": "x_transformer", "d_joint": 4},
]


@pytest.fixture(params=VARIANTS, ids=lambda config: "-".join(map(str, config.values())))
def model(request):
    torch.manual_seed(0)
    return build_model({**SMALL, **request.param}, feature_size=F, vocabulary_size=V).double().eval()


@pytest.fixture(params=[True, False], ids=["masked", "whole"])
def batch(request):
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(B, N, F, generator=generator, dtype=torch.float64)
    mask = torch.ones(B, N, dtype=torch.bool)
    if request.param:
        mask[1, 3:] = False
    lengths = torch.tensor([[6, 2], [1, 0], [3, 5]])  # an image may have fewer captions than its neighbours
    real = torch.arange(T) < lengths[..., None]
    tokens = torch.randint(3, V, (B, C, T), generator=generator).masked_fill(~real, PAD)
    return features, mask, tokens, real


def gradients(model, loss):
    names, parameters = zip(*model.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    return {name: value for name, value in zip(names, found, strict=True) if value is not None}


def test_packed_words_equal_padded_ones_in_value_and_gradient(model, batch):
    features, mask, tokens, real = batch
    padded = model.decode(tokens, model.encode(features, mask))[real]
    packed = model.decode_words(tokens, real, model.encode(features, mask))
    torch.testing.assert_close(packed, padded, atol=1e-12, rtol=0)
    weights = torch.randn_like(padded)
    ours, theirs = gradients(model, (packed * weights).sum()), gradients(model, (padded * weights).sum())
    assert set(ours) <= set(theirs)
    for name, expected in theirs.items():
        torch.testing.assert_close(ours.get(name, torch.zeros_like(expected)), expected, atol=1e-10, rtol=0)


def test_recomputed_activations_give_the_same_gradient_also_with_dropout(model, batch):
    features, mask, tokens, real = batch
    model.train()
    found = []
    for model.recompute in (False, True):
        torch.manual_seed(4)
        hidden = model.decode_words(tokens, real, model.encode(features, mask))
        found.append(gradients(model, hidden.square().sum()))
    for name, expected in found[0].items():
        torch.testing.assert_close(found[1][name], expected, atol=1e-12, rtol=0)


def test_pack_and_spread_are_inverse_and_differentiable(batch):
    words = Words(batch[3])
    x = torch.randn(B, C, T, 4, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(words.spread(words.pack(x)), x * batch[3][..., None])
    rows = torch.randn(int(batch[3].sum()), 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(words.pack, (x,))
    assert torch.autograd.gradcheck(words.spread, (rows,))


def prefix_step(model):
    """A step that keeps only the words and decodes them all anew."""

    def step(tokens, state):
        words = torch.cat([state.per_beam["said"], tokens[..., None]], 2)
        hidden = model.decode(words, state.memory)[:, :, -1]
        return model.log_probabilities(hidden), State(state.memory, state.position + 1, {"said": words})

    return step


def test_beam_search_equals_encoding_the_prefix_anew(model, batch):
    features, mask = batch[:2]
    options = {"images": B, "beam": 3, "max_length": 9, "bos": BOS, "eos": EOS, "pad": PAD, "device": mask.device}
    with torch.no_grad():
        memory = model.encode(features, mask)
        tokens, scores = beam_search(model.step, model.start(memory), **options)
        plain = State(memory, per_beam={"said": torch.empty(B, 1, 0, dtype=torch.long)})
        expected, expected_scores = beam_search(prefix_step(model), plain, **options)
    assert torch.equal(tokens, expected)
    torch.testing.assert_close(scores, expected_scores, atol=1e-5, rtol=0)


@torch.no_grad()
def test_caches_outgrow_their_room_and_survive_branches(model, batch):
    """Two steps from one state must not overwrite each other's words, though caches are written in place."""
    features, mask = batch[:2]
    memory = model.encode(features, mask)
    words = torch.randint(3, V, (B, C, 60), generator=torch.Generator().manual_seed(3))
    state = model.start(memory).reorder(torch.zeros(B, C, dtype=torch.long))
    for place in range(59):
        before = state
        _, state = model.step(words[..., place], state)
    _, other = model.step(words[..., 58].flip(1), before)
    out, _ = model.step(words[..., 59], state)
    model.step(words[..., 59], other)
    expected = model.log_probabilities(model.decode(words, memory)[:, :, -1])
    torch.testing.assert_close(out, expected, atol=1e-10, rtol=0)
