"""Teacher forcing: the cross-entropy of reference captions."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from recap.data.vocabulary import BANNED, PAD, UNK
from recap.decoding.sampling import draw
from recap.decoding.step import with_banned_tokens
from recap.models.base import Captioner
from recap.models.state import Memory
from recap.nn.fast import fixed_weights
from recap.settings import CrossEntropy
from recap.training.batches import Batch
from recap.training.objectives.logged import Logged


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Mean cross-entropy over R tokens: scores [R, V], token ids [R].

    With smoothing s the target puts 1 - s on the token and s / (V - 1) on each other one, and the target's own
    entropy is subtracted (the KL form of the captioning code bases), so a perfect model has loss 0.
    """
    log_probabilities = logits.log_softmax(-1)
    correct = log_probabilities.gather(-1, targets[:, None])[:, 0]
    if smoothing == 0:
        return -correct.mean()
    size = logits.shape[-1]
    mass = smoothing / (size - 1)
    target_entropy = (1 - smoothing) * math.log(1 - smoothing) + smoothing * math.log(mass)
    expected = (1 - smoothing) * correct + mass * (log_probabilities.sum(-1) - correct)
    return (target_entropy - expected).mean()


@fixed_weights()
def sampled_inputs(model: Captioner, memory: Memory, inputs: Tensor, rate: float) -> Tensor:
    """Replace tokens of captions [B, C, T], each with probability `rate`, by draws from the model (scheduled sampling).

    Token t is drawn after the tokens before it, replaced ones among them. All are drawn first and the loss is taken in
    one teacher-forced pass over them: no gradient flows through a draw, so this differs from released code, which draws
    on the way, in the dropout masks alone (a token is drawn under other masks than it is trained under).
    """
    step = with_banned_tokens(model.step, BANNED)
    batch, captions, length = inputs.shape
    state = model.start(memory).reorder(torch.zeros(batch, captions, dtype=torch.long, device=inputs.device))
    tokens = [inputs[..., 0]]
    for position in range(1, length):
        log_probabilities, state = step(tokens[-1], state)
        chosen = torch.rand(batch, captions, device=inputs.device) < rate
        reference = inputs[..., position]
        tokens.append(torch.where(chosen & (reference != PAD), draw(log_probabilities), reference))
    return torch.stack(tokens, -1)


def truncated_to_words(tokens: Tensor, begins_word: Tensor) -> Tensor:
    """Cut captions [B, C, T + 1] of byte pairs to as many tokens as the one with the most words would have as words.

    `begins_word` [V] is True for pieces that begin a word after the first.
    """
    others = begins_word.to(tokens.device)[tokens].sum(-1)  # [B, C]
    words = others + (tokens[..., 1] > UNK)  # no space precedes the first word
    return tokens[..., : int(words.max()) + 2]


class CrossEntropyObjective:
    """The loss of the first stage, with dropout; `begins_word` is for `truncate_to_words`, see `truncated_to_words`."""

    def __init__(self, model: Captioner, stage: CrossEntropy, begins_word: Tensor | None = None) -> None:
        self.model, self.smoothing, self.sampling = model, stage.label_smoothing, stage.scheduled_sampling
        self.begins_word = begins_word

    def __call__(self, batch: Batch, epoch: int = 0) -> Logged:
        """Return the mean loss per token; logits are made for real tokens only."""
        self.model.train()
        tokens = batch.tokens if self.begins_word is None else truncated_to_words(batch.tokens, self.begins_word)
        inputs, targets = tokens[..., :-1], tokens[..., 1:]
        memory = self.model.encode(batch.images)
        rate = self.sampling.rate(epoch) if self.sampling else 0.0
        if rate:
            inputs = sampled_inputs(self.model, memory, inputs, rate)
        token_mask = targets != PAD
        hidden = self.model.decode_words(inputs, token_mask, memory)  # [R, D]
        logits = self.model.logits(hidden)  # [R, V]
        return Logged(smoothed_cross_entropy(logits.float(), targets[token_mask], self.smoothing), len(hidden))
