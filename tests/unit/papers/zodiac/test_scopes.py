"""ZoDIAC's averages over more than a prefix,
which break the contract of models on purpose, and what they keep."""

import pytest
import torch

from helpers.model_cases import (
    PAD,
    T,
    built,
    log_probabilities,
    random_images,
    random_tokens,
    stepwise,
    wider,
)
from recap.models import transformer as shared_transformer
from recap.nn.rows import PackedIndex
from recap.papers.transformer import model as transformer
from recap.settings.models import MODELS

EXAMPLE = MODELS.classes()["zodiac"].example()
SCOPES = [
    EXAMPLE.model_copy(update={"rap_scope": scope, "gate": gate})
    for scope in ("printed", "image", "global", "as_released")
    for gate in ("sigmoid", "tanh")
]
OTHERS = [MODELS.classes()["transformer"].example(), EXAMPLE]


def name(config):
    return f"{config.kind}-{getattr(config, 'rap_scope', '')}-{getattr(config, 'gate', '')}"


@pytest.fixture(params=SCOPES, ids=name)
def scoped(request):
    return built(request.param)


@pytest.fixture(params=SCOPES + OTHERS, ids=name)
def any_scope(request):
    return built(request.param)


@pytest.fixture
def images():
    return random_images(EXAMPLE)


@pytest.fixture
def tokens():
    return random_tokens()


def same(*pair):
    return torch.allclose(*pair, atol=1e-12, rtol=0)


def test_a_mask_that_hides_nothing_may_be_left_out_only_where_nothing_depends_on_it(
    any_scope, tokens, monkeypatch
):
    images = random_images(EXAMPLE, masked=False)
    before = log_probabilities(any_scope, images, tokens), stepwise(any_scope, images, tokens)
    for module in (transformer, shared_transformer):
        monkeypatch.setattr(module, "none_if_all_true", lambda mask: mask)
    after = log_probabilities(any_scope, images, tokens), stepwise(any_scope, images, tokens)
    torch.testing.assert_close(after, before, atol=1e-12, rtol=0)


def test_more_padding_of_captions_changes_nothing_but_the_released_average(scoped, images, tokens):
    tokens[1, 0, 3:] = PAD
    tokens[2, 1] = PAD  # an image with fewer captions
    longer = torch.nn.functional.pad(tokens, (0, 4), value=PAD)
    mask, memory = tokens != PAD, scoped.encode(images)
    padded = [scoped.decode(some, memory)[:, :, :T][mask] for some in (tokens, longer)]
    # as training asks
    targets = [PackedIndex(torch.nn.functional.pad(mask[..., 1:], (0, end))) for end in (1, 5)]
    packed = [
        scoped.decode_words(*asked, memory) for asked in zip((tokens, longer), targets, strict=True)
    ]
    assert [same(*padded), same(*packed)] == [not scoped.keep_masks] * 2


def test_more_padding_of_images_changes_nothing_but_the_released_average(scoped, images, tokens):
    found = (
        log_probabilities(scoped, wider(images), tokens),
        log_probabilities(scoped, images, tokens),
    )
    assert same(*found) is not scoped.keep_masks


def test_a_caption_of_padding_alone_gives_finite_gradients(scoped, images, tokens):
    tokens[2, 1] = PAD
    scoped.decode_words(tokens, PackedIndex(tokens != PAD), scoped.encode(images)).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in scoped.parameters() if p.grad is not None)


@pytest.mark.parametrize("scope", ["printed", "image", "global"])
def test_uncached_scopes_decode_a_growing_prefix(scope, images, tokens):
    model = built(EXAMPLE.model_copy(update={"rap_scope": scope}))
    steps = stepwise(model, images, tokens)
    for length in (1, 4, T):
        prefix = log_probabilities(model, images, tokens[..., :length])[..., -1, :]
        torch.testing.assert_close(steps[..., length - 1, :], prefix, atol=1e-12, rtol=0)


def test_the_released_average_decodes_under_one_mask_for_all_captions(images, tokens):
    # Its denominator does not grow with the captions there,
    # but does under teacher forcing; one caption tells nothing.
    model = built(EXAMPLE.model_copy(update={"rap_scope": "as_released", "gate": "tanh"}))
    first = torch.tensor([0])
    for captions in (1, 2):
        some = tokens[:1, :captions, :4]
        last = [
            found(model, images.select(first), some)[..., -1, :]
            for found in (stepwise, log_probabilities)
        ]
        assert same(*last) is (captions == 1)
