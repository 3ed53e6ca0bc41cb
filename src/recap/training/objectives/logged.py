"""What an objective returns."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class Logged:
    """The loss of a batch, and numbers to log beside it."""

    loss: Tensor  #: scalar, the mean over `num_tokens` tokens, or positions of captions
    num_tokens: int  #: what the loss and the numbers weigh where several processes share a batch
    #: means to log, by name (columns of history.csv); a stage logs the same names in every step. Scalars on a GPU stay
    #: there until the step is queued.
    numbers: dict[str, float | Tensor] = field(default_factory=dict)
    #: scalar that is added to the loss, the mean over `num_added` other tokens; None for nothing
    added: Tensor | None = None
    num_added: int = 0  #: what it weighs where several processes share a batch


@torch.no_grad()
def policy_numbers(log_probabilities: Tensor, tokens: Tensor) -> dict[str, float | Tensor]:
    """Return means per token, in nats: the log-probability of tokens [R] and the entropy of their distributions [R, V].

    In self-critical training a log-probability of random samples that keeps falling, or an entropy that runs to 0,
    comes hundreds of steps before the reward breaks down.
    """
    chosen = log_probabilities.gather(-1, tokens[:, None])
    # What is banned has log-probability -inf and adds 0.
    entropy = -(log_probabilities.exp() * log_probabilities.clamp(min=torch.finfo(torch.float32).min)).sum(-1)
    return {"log_probability": chosen.mean(), "entropy": entropy.mean()}
