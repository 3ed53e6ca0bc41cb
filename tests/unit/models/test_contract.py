"""What every registered model promises.

`recap.settings.models` says which there are, with examples and variants.
"""

from dataclasses import dataclass, field, replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from helpers.model_cases import (
    BOS,
    EOS,
    PAD,
    B,
    C,
    N,
    RandomStore,
    T,
    V,
    built,
    cases,
    changed,
    log_probabilities,
    random_images,
    random_tokens,
    single,
    stepwise,
    wider,
)
from helpers.training import Killed, training
from recap.decoding.beam import beam_search
from recap.decoding.step import DecodingBatch
from recap.models.explained import attention_maps
from recap.models.images import Stream
from recap.models.state import PER_BEAM, State
from recap.nn import fast
from recap.nn.rows import PackedIndex
from recap.settings import CrossEntropy, DecodingSettings, SelfCritical

pytestmark = pytest.mark.seconds

# `make test` runs the example of each kind with fast layers, `make test-all` its variants, which
# are its options, and plain layers, too.
CASES = [
    pytest.param(config, id=name, marks=[] if name == config.kind else pytest.mark.slow)
    for name, config in cases()
]


@pytest.fixture(params=CASES)
def config(request):
    return request.param


@pytest.fixture(
    params=[True, pytest.param(False, marks=pytest.mark.slow)], ids=["fast", "plain"], autouse=True
)
def with_and_without_fast_layers(request, monkeypatch):
    monkeypatch.setattr(fast, "_enabled", request.param)


@pytest.fixture
def model(config):
    return built(config)


@pytest.fixture
def images(config):
    return random_images(config)


@pytest.fixture(params=[True, False], ids=["masked", "whole"])
def either(config, request):
    return random_images(config, masked=request.param)


@pytest.fixture
def tokens():
    return random_tokens()


@pytest.fixture
def captions(tokens):
    """Captions of many lengths, and where their tokens are.

    An image may have fewer than its neighbors.
    """
    mask = torch.arange(T) < torch.tensor([[6, 2], [1, 0], [3, 5]])[..., None]
    return tokens.masked_fill(~mask, PAD), mask


def close(found, expected, atol=1e-12):
    torch.testing.assert_close(found, expected, atol=atol, rtol=0)


def test_the_loss_reaches_every_parameter_with_a_finite_gradient(config, model, images, tokens):
    loss = -log_probabilities(model.train(), images, tokens).mean()
    loss.backward()
    assert torch.isfinite(loss)
    missing = [
        name
        for name, p in model.named_parameters()
        if p.grad is None or not torch.isfinite(p.grad).all()
    ]
    assert [
        name for name in missing if not any(part in name for part in config.unused_parameters)
    ] == []
    for part in config.unused_parameters:
        assert any(part in name for name in missing), f"{part} is used"


def test_a_step_equals_teacher_forcing(model, images, tokens):
    close(stepwise(model, images, tokens), log_probabilities(model, images, tokens), 1e-10)


def test_no_token_sees_a_later_one(model, images, tokens):
    later = tokens.clone()
    later[..., 4:] = 3 + (later[..., 4:] - 2) % (V - 3)
    before, after = (log_probabilities(model, images, either) for either in (tokens, later))
    close(before[..., :4, :], after[..., :4, :])
    assert (before[..., 4:, :] - after[..., 4:, :]).abs().max() > 1e-4


def test_masked_vectors_change_nothing(config, model, images, tokens):
    def spoiled(stream):
        hidden = ~stream.mask[..., None]
        return Stream(
            stream.values.masked_fill(hidden, 100.0), stream.mask, stream.boxes, stream.sizes
        )

    expected = log_probabilities(model, images, tokens)
    close(log_probabilities(model, changed(images, spoiled), tokens), expected)
    if not config.fixed_vectors:
        close(log_probabilities(model, wider(images), tokens), expected)


def test_every_vector_and_stream_counts(model, images, tokens):
    expected = log_probabilities(model, images, tokens)
    for name in images.streams:

        def other(stream, chosen=images[name]):
            moved = stream.values * (1.5 if stream is chosen else 1.0)
            return Stream(moved, stream.mask, stream.boxes, stream.sizes)

        assert (log_probabilities(model, changed(images, other), tokens) - expected).abs().amax(
            (1, 2, 3)
        ).min() > 1e-6


def test_an_image_does_not_depend_on_its_batch(config, model):
    images, tokens = random_images(config, 8, masked=False), random_tokens(8)
    together = log_probabilities(model, images, tokens)
    for index in range(8):
        one = torch.tensor([index])
        close(log_probabilities(model, images.select(one), tokens[one]), together[one])


def test_captions_of_an_image_do_not_see_each_other(model, images, tokens):
    close(
        log_probabilities(model, images, tokens[:, :1]),
        log_probabilities(model, images, tokens)[:, :1],
    )


def test_more_padding_of_captions_changes_nothing(model, images, captions):
    tokens, mask = captions
    memory = model.encode(images)
    longer = torch.nn.functional.pad(tokens, (0, 4), value=PAD)
    close(model.decode(longer, memory)[:, :, :T][mask], model.decode(tokens, memory)[mask])
    # as training asks
    targets = [PackedIndex(torch.nn.functional.pad(mask[..., 1:], (0, end))) for end in (1, 5)]
    found = [
        model.decode_words(*asked, memory) for asked in zip((tokens, longer), targets, strict=True)
    ]
    close(*found)


def gradients(model, loss):
    names, parameters = zip(*model.named_parameters(), strict=True)
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    return {name: value for name, value in zip(names, found, strict=True) if value is not None}


def test_packed_tokens_equal_padded_ones_in_value_and_gradient(model, either, captions):
    tokens, mask = captions
    padded = model.decode(tokens, model.encode(either))[mask]
    packed = model.decode_words(tokens, PackedIndex(mask), model.encode(either))
    close(packed, padded)
    weights = torch.randn_like(padded)
    ours = gradients(model, (packed * weights).sum())
    theirs = gradients(model, (padded * weights).sum())
    assert set(ours) <= set(theirs)
    for name, expected in theirs.items():
        close(ours.get(name, torch.zeros_like(expected)), expected, 1e-10)


def test_recomputed_activations_give_the_same_gradient_also_with_dropout(model, either, captions):
    found, (tokens, mask) = [], captions
    for model.activation_checkpointing in (False, True):
        torch.manual_seed(4)
        hidden = model.train().decode_words(tokens, PackedIndex(mask), model.encode(either))
        found.append(gradients(model, hidden.square().sum()))
    for name, expected in found[0].items():
        close(found[1][name], expected)


def test_a_state_follows_its_beams_and_images(model, images, tokens):
    whole = stepwise(model, images, tokens.flip(1))
    state = model.start(model.encode(images)).reorder(torch.zeros(B, C, dtype=torch.long))
    _, state = model.step(tokens[..., 0], state)
    state = state.reorder(torch.tensor([[1, 0]] * B)).select(torch.tensor([2, 0]))
    out, _ = model.step(tokens.flip(1)[[2, 0], :, 1], state)
    close(out, whole[[2, 0], :, 1], 1e-10)


@torch.no_grad()
def test_caches_outgrow_their_first_size_and_survive_two_steps_from_one_state(model, either):
    memory, tokens = model.encode(either), random_tokens(length=60, seed=3)
    state = model.start(memory).reorder(torch.zeros(B, C, dtype=torch.long))
    for position in range(59):
        before = state
        _, state = model.step(tokens[..., position], state)
    _, other = model.step(tokens[..., 58].flip(1), before)
    out, _ = model.step(tokens[..., 59], state)
    model.step(tokens[..., 59], other)
    close(out, model.log_probabilities(model.decode(tokens, memory)[:, :, -1]), 1e-10)


@dataclass(frozen=True, kw_only=True)
class Prefix(State):
    tokens: torch.Tensor = field(metadata=PER_BEAM)


def prefix_step(model):
    """Return a step that keeps only the tokens and decodes them all again."""

    def step(tokens, state):
        prefix = torch.cat([state.tokens, tokens[..., None]], 2)
        hidden = model.decode(prefix, state.memory)[:, :, -1]
        return model.log_probabilities(hidden), replace(state, tokens=prefix)

    return step


@torch.no_grad()
def test_beam_search_equals_decoding_the_whole_prefix_at_every_step(model, either):
    batch = DecodingBatch(B, BOS, EOS, PAD, either.device)
    settings = DecodingSettings(beam=3, max_length=9)
    memory = model.encode(either)
    found = beam_search(model.step, model.start(memory), batch, settings)
    plain = Prefix(memory, tokens=torch.empty(B, 1, 0, dtype=torch.long))
    expected = beam_search(prefix_step(model), plain, batch, settings)
    assert torch.equal(found.tokens, expected.tokens)
    close(found.scores, expected.scores, 1e-5)


def test_decoding_keeps_rare_tokens_under_bf16(model, images, tokens):
    # Sampling from 16-bit probabilities would never draw a rare token,
    # and train another policy than the one scored.
    model.float()
    with torch.autocast("cpu", torch.bfloat16):
        out, _ = model.step(tokens[:, :1, 0], model.start(model.encode(changed(images, single))))
    assert out.dtype == torch.float32
    close(out.exp().sum(-1), torch.ones(B, 1), 1e-5)


def test_a_caption_of_padding_alone_gives_finite_gradients(model, images, tokens):
    tokens[2, 1] = PAD
    model.decode_words(tokens, PackedIndex(tokens != PAD), model.encode(images)).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


def test_weights_are_saved_and_loaded_whole(model, images, tokens, tmp_path):
    expected = log_probabilities(model, images, tokens)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    model.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(log_probabilities(model, images, tokens), expected)


@pytest.mark.parametrize("length", [1, 3])
def test_attention_maps_sum_to_one_over_real_vectors(model, images, length):
    if not model.attention_modules():
        return  # a model need not have any
    maps = attention_maps(model, torch.full((B, C, length), 4), model.encode(images))
    # of one stream, or of two joined
    assert maps.shape[:3] == (B, C, length) and maps.shape[3] in (N, 2 * N)
    close(maps.sum(-1), torch.ones(B, C, length, dtype=maps.dtype), 1e-6)
    assert maps[1, :, :, 3:N].abs().max() == 0
    assert not any(module._forward_hooks for module in model.modules())


EXAMPLES = [config for name, config in cases() if name == config.kind]
XE = CrossEntropy(epochs=2, learning_rate=0.01, images_per_batch=5)
SCST = SelfCritical(epochs=1, learning_rate=0.01, images_per_batch=5, samples=2)


@pytest.mark.parametrize("with_and_without_fast_layers", [True], ids=["fast"], indirect=True)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda config: config.kind)
@pytest.mark.parametrize(("stage", "die_at"), [(XE, 4), (SCST, 2)], ids=["xe", "scst"])
def test_a_killed_training_continues_to_the_same_bits(tmp_path, example, stage, die_at):
    options = {"stage": stage, "config": example, "store": RandomStore(example)}
    whole = training(tmp_path / "whole", **options)
    whole.run()
    with pytest.raises(Killed):
        training(tmp_path / "broken", **options, die_at=die_at).run()
    again = training(tmp_path / "broken", **options)
    again.run()
    for ours, theirs in zip(
        again.model.state_dict().values(), whole.model.state_dict().values(), strict=True
    ):
        assert torch.equal(ours, theirs)
