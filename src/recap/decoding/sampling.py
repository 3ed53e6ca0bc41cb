"""Random captions drawn word by word from the model's distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from recap.decoding.step import S, Step


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
) -> Tensor:
    """Draw captions of each image independently (multinomial sampling, torch's global generator).

    Args:
        step: see `recap.decoding.step.Step`.
        state: the state of `images` images before the first word, with one beam each.
        samples: captions an image, S.

    Returns:
        Tokens [B, S, max_length] without <bos>, padded after <eos>.
    """
    state = state.reorder(torch.zeros(images, samples, dtype=torch.long, device=device))
    tokens = torch.full((images, samples, max_length), pad, dtype=torch.long, device=device)
    active = torch.arange(images, device=device)  # images with a caption that has not ended
    words = torch.full((images, samples), bos, dtype=torch.long, device=device)
    done = torch.zeros(images, samples, dtype=torch.bool, device=device)
    for place in range(max_length):
        log_probabilities, state = step(words, state)
        words = torch.where(done, pad, draw(log_probabilities))
        tokens[active, :, place] = words
        done = done | (words == eos)
        finished = done.all(1)
        if finished.any():
            going = (~finished).nonzero()[:, 0]
            if not len(going):
                break
            active, words, done, state = active[going], words[going], done[going], state.keep(going)
    return tokens


def draw(log_probabilities: Tensor) -> Tensor:
    """Draw one word from each distribution [..., V] by inverse transform: one random number a row, not one a word."""
    ladder = log_probabilities.exp().cumsum(-1)
    top = ladder[..., -1:]
    height = torch.rand(top.shape, device=top.device, dtype=top.dtype) * top
    # right=True: a word without probability is a step without height and is never landed on.
    return torch.searchsorted(ladder, height, right=True)[..., 0].clamp(max=ladder.shape[-1] - 1)
