"""The cache of keys and values against plain lists of what each beam said."""

import pytest
import torch

from recap.models.state import INITIAL_TOKENS, KeyValueCache
from recap.nn.attention import MultiHeadAttention
from recap.nn.rows import Rows

B, H, K, LAYERS = 3, 2, 4, 2


def token(beams, seed):
    """Keys and values of one token of each beam, for every layer."""
    generator = torch.Generator().manual_seed(seed)
    shape = (LAYERS, 2, B, beams, H, 1, K)
    return [tuple(layer) for layer in torch.randn(shape, generator=generator, dtype=torch.float64)]


class Plain:
    """The same by concatenation: reordering moves everything."""

    def __init__(self):
        self.layers = [
            tuple(torch.zeros(B, 1, H, 0, K, dtype=torch.float64) for _ in range(2))
            for _ in range(LAYERS)
        ]

    def append(self, new):
        pairs = zip(self.layers, new, strict=True)
        self.layers = [
            tuple(torch.cat(both, 3) for both in zip(*pair, strict=True)) for pair in pairs
        ]
        return self

    def index(self, *where):
        self.layers = [tuple(x[where] for x in pair) for pair in self.layers]
        return self

    def reorder(self, beams):
        return self.index(torch.arange(len(beams))[:, None], beams)


def extended(cache, new):
    cache = cache.extended()
    for layer, key_value in enumerate(new):
        cache.append(layer, key_value)
    return cache


def empty():
    return KeyValueCache.empty(B, LAYERS, torch.device("cpu"))


def assert_same(cache, plain):
    for layer, expected in enumerate(plain.layers):
        torch.testing.assert_close(cache.per_beam(layer), expected, atol=0, rtol=0)
        attend_alike(cache, layer, expected)


def attend_alike(cache, layer, expected):
    """Attention over the shared entries under the mask is attention over the beam's own tokens."""
    torch.manual_seed(0)
    attention = MultiHeadAttention(d_model=H * K, heads=H).double()
    query = Rows(torch.randn(*cache.ancestry.shape[:2], 1, H * K, dtype=torch.float64))
    shared = attention(query, cache.shared(layer), attn_mask=cache.mask).values
    torch.testing.assert_close(shared, attention(query, expected).values, atol=1e-12, rtol=0)


@pytest.fixture
def moves():
    return torch.tensor([[0, 0, 2], [2, 1, 0], [1, 1, 1]])


def test_beams_keep_their_own_tokens_through_reorder_and_select(moves):
    cache, plain = extended(empty(), token(1, 0)), Plain().append(token(1, 0))
    assert_same(cache, plain)
    first = torch.zeros(B, 3, dtype=torch.long)  # one beam becomes three
    cache, plain = cache.reorder(first), plain.reorder(first)
    for seed in (1, 2, 3):
        cache = extended(cache, token(3, seed)).reorder(moves)
        plain = plain.append(token(3, seed)).reorder(moves)
        assert_same(cache, plain)
    images = torch.tensor([2, 0])
    assert_same(cache.select(images), plain.index(images))
    assert cache.ancestry.tolist()[2] == [[0, 2, 5, 8]] * 3  # image 2 always went on with beam 1


def test_two_caches_that_extend_one_do_not_overwrite_each_other():
    begun = extended(empty(), token(1, 0))
    one, other = extended(begun, token(1, 1)), extended(begun, token(1, 2))
    one, other = extended(one, token(1, 3)), extended(other, token(1, 4))
    assert_same(begun, Plain().append(token(1, 0)))
    assert_same(one, Plain().append(token(1, 0)).append(token(1, 1)).append(token(1, 3)))
    assert_same(other, Plain().append(token(1, 0)).append(token(1, 2)).append(token(1, 4)))


def test_a_cache_grows_beyond_its_first_space():
    cache, plain = empty(), Plain()
    for seed in range(2 * INITIAL_TOKENS + 2):
        cache, plain = extended(cache, token(1, seed)), plain.append(token(1, seed))
    assert_same(cache, plain)
    assert cache.storage.layers[0][0].shape[2] == 4 * INITIAL_TOKENS  # doubled twice


def test_what_is_cached_has_no_graph():
    keys = torch.randn(B, 1, H, 1, K, requires_grad=True)
    cache = empty().extended()
    cache.append(0, (keys * 2, keys * 3))
    assert not cache.shared(0)[0].requires_grad
