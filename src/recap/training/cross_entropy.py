"""Teacher forcing: the cross-entropy of reference captions."""

from __future__ import annotations

import math

from torch import Tensor

from recap.core.config import CrossEntropy
from recap.data.vocabulary import PAD
from recap.models.base import Captioner
from recap.training.batches import Batch


def smoothed_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """Mean cross-entropy over words.

    With smoothing s the target puts 1 - s on the word and s / (V - 1) on each other word, and the target's own
    entropy is subtracted (the KL form of the captioning code bases), so a perfect model has loss 0.

    Args:
        logits: [R, V] scores of R words.
        targets: [R] word ids.
        smoothing: s, 0 for plain cross-entropy.
    """
    log_probabilities = logits.log_softmax(-1)
    right = log_probabilities.gather(-1, targets[:, None])[:, 0]
    if smoothing == 0:
        return -right.mean()
    size = logits.shape[-1]
    share = smoothing / (size - 1)
    target_entropy = (1 - smoothing) * math.log(1 - smoothing) + smoothing * math.log(share)
    expected = (1 - smoothing) * right + share * (log_probabilities.sum(-1) - right)
    return (target_entropy - expected).mean()


class CrossEntropyObjective:
    """The loss of the first stage; dropout is on.

    Args:
        model: the captioner.
        stage: the recipe's `xe`.
    """

    def __init__(self, model: Captioner, stage: CrossEntropy) -> None:
        self.model, self.smoothing = model, stage.label_smoothing

    def __call__(self, batch: Batch) -> tuple[Tensor, dict[str, float]]:
        """Return the mean loss a word; logits are made for real words only."""
        self.model.train()
        inputs, targets = batch.tokens[..., :-1], batch.tokens[..., 1:]
        real = targets != PAD
        hidden = self.model.decode_words(inputs, real, self.model.encode(batch.features, batch.mask))  # [R, D]
        logits = self.model.logits(hidden)  # [R, V]
        return smoothed_cross_entropy(logits.float(), targets[real], self.smoothing), {"words": float(len(hidden))}
