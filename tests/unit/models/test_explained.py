"""What a model looked at: weights for every kind, which are those that its attention used."""

import pytest
import torch

from helpers.model_cases import T, built, cases, random_images, random_tokens, wider
from recap.models.explained import explained

CASES = cases()
WORDS = ["a", "red", "circle", "b", "c", "d"]


@pytest.mark.parametrize(("name", "config"), CASES, ids=[name for name, _ in CASES])
def test_every_kind_says_what_it_looked_at(name, config):
    model = built(config)
    images, tokens = random_images(config, 1, masked=False), random_tokens(1, captions=1)
    maps, notes = explained(config.kind, model, images, tokens, WORDS[: T - 1])
    assert maps.shape[0] == T - 1 and maps.shape[1] >= images.main.mask.shape[1]
    assert torch.allclose(maps.sum(-1), torch.ones(T - 1, dtype=maps.dtype)) and (maps >= 0).all()
    assert maps.std(-1).max() > 0
    other, _ = explained(
        config.kind, model, random_images(config, 1, seed=5, masked=False), tokens, WORDS[: T - 1]
    )
    assert not torch.allclose(maps, other)
    for note in notes:
        assert note.title and (len(note.values) == T - 1 or note.lines)


@pytest.mark.parametrize("kind", ["transformer", "zodiac", "up_down"])
def test_hidden_vectors_get_no_attention(kind):
    config = dict(cases())[kind]
    images = wider(random_images(config, 1, masked=False))
    maps, _ = explained(kind, built(config), images, random_tokens(1, captions=1), WORDS[: T - 1])
    assert torch.equal(maps[:, -2:], torch.zeros_like(maps[:, -2:]))


def test_gates_and_clusters_are_said():
    for kind, titles in (
        ("visual_gpt", ["visual gate of the last layer"]),
        ("acf", ["clusters of words", "clusters of patches"]),
    ):
        config = dict(cases())[kind]
        images, tokens = random_images(config, 1, masked=False), random_tokens(1, captions=1)
        _, notes = explained(kind, built(config), images, tokens, WORDS[: T - 1])
        assert [note.title for note in notes] == titles
