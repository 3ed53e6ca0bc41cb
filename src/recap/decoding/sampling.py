"""Random captions drawn token by token from the model's distribution."""

from __future__ import annotations

import torch
from torch import Tensor

from recap.decoding.step import DecodingBatch, S, Step, any_leave


@torch.no_grad()
def sample(
    step: Step[S],
    state: S,
    batch: DecodingBatch,
    *,
    max_length: int,
    samples: int,
    greedy: bool = False,
) -> Tensor:
    """Draw S captions of each image independently (multinomial sampling, torch's global generator).

    With `greedy` one more caption takes the most probable token at every position: the baseline of
    self-critical training then costs one more row in each step and no separate decoding.

    Returns:
        Tokens [B, S, max_length] without <bos>, padded after <eos>; with `greedy` [B, S + 1,
        max_length], it last.
    """
    images, device = batch.images, batch.device
    captions = samples + greedy
    state = state.reorder(torch.zeros(images, captions, dtype=torch.long, device=device))
    results = torch.full((images, captions, max_length), batch.pad, dtype=torch.long, device=device)
    active = torch.arange(images, device=device)  # images with an unfinished caption
    tokens = torch.full((images, captions), batch.bos, dtype=torch.long, device=device)
    done = torch.zeros(images, captions, dtype=torch.bool, device=device)
    for position in range(max_length):
        log_probabilities, state = step(tokens, state)
        drawn = draw(log_probabilities[:, :samples])
        tokens = torch.cat([drawn, log_probabilities[:, samples:].argmax(-1)], 1).masked_fill(
            done, batch.pad
        )
        results[active, :, position] = tokens
        done = done | (tokens == batch.eos)
        finished = done.all(1)
        if any_leave(finished, log_probabilities, active, position + 1, together=batch.together):
            unfinished = (~finished).nonzero()[:, 0]
            if not len(unfinished):
                break
            active, tokens, done = active[unfinished], tokens[unfinished], done[unfinished]
            state = state.select(unfinished)
    return results


def sample_one(
    step: Step[S],
    state: S,
    batch: DecodingBatch,
    *,
    max_length: int,
    samples: int,
    temperature: float,
    seed: int,
) -> tuple[Tensor, Tensor]:
    """Draw S captions of one image as `sample` does,
    from the softmax of log-probabilities / temperature.

    Torch's global generator stays as it was: draws depend on `seed` alone.

    Returns:
        Tokens [S, T], T the longest, and the log-probability [S] of each caption at temperature 1.
    """
    steps: list[Tensor] = []  # [S, V] each

    def tempered(tokens: Tensor, state: S) -> tuple[Tensor, S]:
        log_probabilities, state = step(tokens, state)
        steps.append(log_probabilities[0])
        return (log_probabilities / temperature).log_softmax(-1), state

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        tokens = sample(tempered, state, batch, max_length=max_length, samples=samples)[0]
    tokens = tokens[:, : len(steps)]
    chosen = torch.stack(steps, 1).gather(-1, tokens[..., None])[..., 0]
    return tokens, chosen.masked_fill(tokens == batch.pad, 0).sum(-1)


def draw(log_probabilities: Tensor) -> Tensor:
    """Draw one token of each distribution [..., V] by inverse transform:
    one random number per row, not per token."""
    cdf = log_probabilities.exp().cumsum(-1)
    total = cdf[..., -1:]
    u = torch.rand(total.shape, device=total.device, dtype=total.dtype) * total
    # right=True: tokens of zero probability are never drawn.
    return torch.searchsorted(cdf, u, right=True)[..., 0].clamp(max=cdf.shape[-1] - 1)
