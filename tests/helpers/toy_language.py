"""A toy language model with known probabilities, for searches and samples."""

import itertools
from dataclasses import dataclass

import torch

from recap.decoding.step import DecodingBatch, with_banned_tokens
from recap.settings.recipes import DecodingSettings

PAD, BOS, EOS, V = 0, 1, 2, 5


@dataclass
class ToyState:
    """The last word and the place, per beam; `table` [B, length, V, V] differs between images."""

    table: torch.Tensor
    seen: torch.Tensor
    position: int = 0

    def reorder(self, beams):
        return ToyState(self.table, self.seen.gather(1, beams), self.position)

    def select(self, images):
        return ToyState(self.table[images], self.seen[images], self.position)


def toy_step(tokens, state):
    # The sum of words seen enters the table, so a wrongly reordered state gives wrong scores.
    seen = (state.seen + tokens) % V
    images = torch.arange(len(tokens))[:, None]
    return state.table[images, state.position, seen, :], ToyState(
        state.table, seen, state.position + 1
    )


STEP = with_banned_tokens(toy_step, [PAD, BOS])


def toy_state(images, length, seed=0):
    table = torch.randn(
        images, length, V, V, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    return ToyState((2 * table).log_softmax(-1), torch.zeros(images, 1, dtype=torch.long))


def batch(images, eos=EOS, pad=PAD):
    return DecodingBatch(images, BOS, eos, pad, torch.device("cpu"))


def settings(beam, max_length=4, **more):
    return DecodingSettings(beam=beam, max_length=max_length, **more)


def all_captions(state, length):
    """Every caption and its log-probability, by walking all branches of image 0."""
    result = {}
    for words in itertools.product(range(2, V), repeat=length):
        cut = words[: words.index(EOS) + 1] if EOS in words else words
        total, here, last = 0.0, state, BOS
        for word in cut:
            out, here = STEP(torch.tensor([[last]]), here)
            total, last = total + out[0, 0, word].item(), word
        result[cut] = total
    return sorted(result.items(), key=lambda item: -item[1])


def strip(row):
    return tuple(word for word in row.tolist() if word != PAD)
