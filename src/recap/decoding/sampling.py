"""Random captions drawn word by word from the model's distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from recap.decoding.step import NotANumber, S, Step


@torch.no_grad()
def sample(
    step: Step[S],
    state: S,
    *,
    images: int,
    samples: int,
    max_length: int,
    bos: int,
    eos: int,
    pad: int,
    device: torch.device,
    top_p: float = 1.0,
    greedy: bool = False,
) -> Tensor:
    """Draw captions of each image independently (multinomial sampling, torch's global generator).

    Args:
        step: see `recap.decoding.step.Step`.
        state: the state of `images` images before the first word, with one beam each.
        samples: captions an image, S.
        top_p: draw from the most probable words that together have at least this share (Holtzman et al. 2020).
        greedy: let one more caption take the most probable word at every place: the baseline of self-critical training
            then costs a row more in each step and no decoding of its own.

    Returns:
        Tokens [B, S, max_length] without <bos>, padded after <eos>; with `greedy` [B, S + 1, max_length], it last.

    Raises:
        NotANumber: a log-probability is not a number.
    """
    captions = samples + greedy
    state = state.reorder(torch.zeros(images, captions, dtype=torch.long, device=device))
    tokens = torch.full((images, captions, max_length), pad, dtype=torch.long, device=device)
    active = torch.arange(images, device=device)  # images with a caption that has not ended
    words = torch.full((images, captions), bos, dtype=torch.long, device=device)
    done = torch.zeros(images, captions, dtype=torch.bool, device=device)
    for place in range(max_length):
        log_probabilities, state = step(words, state)
        NotANumber.check(log_probabilities, active, place + 1)
        drawn = draw(nucleus(log_probabilities[:, :samples], top_p))
        words = torch.cat([drawn, log_probabilities[:, samples:].argmax(-1)], 1).masked_fill(done, pad)
        tokens[active, :, place] = words
        done = done | (words == eos)
        finished = done.all(1)
        if finished.any():
            going = (~finished).nonzero()[:, 0]
            if not len(going):
                break
            active, words, done, state = active[going], words[going], done[going], state.select(going)
    return tokens


def nucleus(log_probabilities: Tensor, top_p: float) -> Tensor:
    """Keep the fewest most probable words whose probabilities sum to at least `top_p`; the others get -inf."""
    if top_p >= 1:
        return log_probabilities
    ordered, words = log_probabilities.sort(dim=-1, descending=True)
    before = ordered.exp().cumsum(-1) - ordered.exp()  # what the more probable words have
    cut = before >= top_p
    cut[..., 0] = False  # the most probable one always stays
    return log_probabilities.masked_fill(torch.zeros_like(cut).scatter(-1, words, cut), -torch.inf)


def within(log_probabilities: Tensor, kept: Tensor) -> Tensor:
    """Return the distribution [..., V] given that one of the words `kept` (True) is said."""
    return log_probabilities.masked_fill(~kept, -torch.inf).log_softmax(-1)


def draw(log_probabilities: Tensor) -> Tensor:
    """Draw one word from each distribution [..., V] by inverse transform: one random number a row, not one a word."""
    ladder = log_probabilities.exp().cumsum(-1)
    top = ladder[..., -1:]
    height = torch.rand(top.shape, device=top.device, dtype=top.dtype) * top
    # right=True: a word without probability is a step without height and is never landed on.
    return torch.searchsorted(ladder, height, right=True)[..., 0].clamp(max=ladder.shape[-1] - 1)
