"""Losses and learning rates against the golden values."""

from pathlib import Path

import numpy as np
import pytest
import torch

from recap.nn.rows import PackedIndex
from recap.settings.recipes import NoamSchedule
from recap.training.objectives import policy_loss, smoothed_cross_entropy
from recap.training.optim import learning_rate

GOLDEN = np.load(Path(__file__).parent.parent / "golden" / "losses_and_lr.npz")


def tensor(name):
    return torch.from_numpy(np.asarray(GOLDEN[name]))


@pytest.mark.parametrize(
    ("name", "smoothing"),
    [
        ("xlan_cross_entropy", 0.0),
        ("xlan_label_smoothing_0_1", 0.1),
        ("aoa_label_smoothing_0_2", 0.2),
    ],
)
def test_cross_entropy(name, smoothing):
    logits, targets = tensor("in/logit"), tensor("in/target")
    real = targets >= 0
    loss = smoothed_cross_entropy(logits[real], targets[real], smoothing)
    torch.testing.assert_close(loss, tensor(f"out/{name}"), atol=1e-12, rtol=0)


def test_policy_loss():
    sequence = tensor("in/seq")
    ended = (sequence == 0).cumsum(1) - (sequence == 0).long()
    real = ended == 0  # words and the first end token
    loss = policy_loss(
        tensor("in/logprobs")[:, None],
        PackedIndex(real[:, None]),
        tensor("in/reward")[:, None],
        int(real.sum()),
    )
    torch.testing.assert_close(loss, tensor("out/xlan_reward_criterion"), atol=1e-12, rtol=0)


@pytest.mark.parametrize("d_model", [512, 768, 1024])
def test_noam(d_model):
    schedule = NoamSchedule(warmup=10000)
    rates = [
        learning_rate(schedule, step=int(step), epoch=0, lr_drops=0, d_model=d_model, steps=1)
        for step in GOLDEN["in/lr_steps"]
    ]
    np.testing.assert_allclose(rates, GOLDEN[f"out/noam_{d_model}_10000"], rtol=1e-12)
