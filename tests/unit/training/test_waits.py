"""How often a step waits for its device, for a number or the length of an index.

It is what bounds small models.
"""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.model_cases import B, built, cases, random_images
from helpers.training import IMAGES, training
from recap.data.vocabulary import BANNED, BOS, EOS, PAD
from recap.decoding.beam import beam_search
from recap.decoding.sampling import sample
from recap.decoding.step import DecodingBatch, with_banned_tokens
from recap.nn import rows
from recap.runs.folder import Counters
from recap.settings import SelfCritical
from recap.settings.recipes import DecodingSettings
from recap.training.objectives import SelfCriticalObjective

CPU = torch.device("cpu")
LENGTHS = ("aten.nonzero", "aten.masked_select", "aten.unique")
WORDS = 6
EXAMPLES = [(name, config) for name, config in cases() if name == config.kind]


class Waits(TorchDispatchMode):
    """Notes the waits within a `with` block, in order, and where the backward pass begins."""

    def __init__(self):
        super().__init__()
        self.order = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func)
        if name.startswith("aten._local_scalar_dense"):
            self.order.append("read")
        elif name.startswith(LENGTHS) or (name.startswith("aten.index.") and _boolean(args[1])):
            self.order.append("length")
        elif "backward" in name and "backward" not in self.order:
            self.order.append("backward")
        return func(*args, **(kwargs or {}))

    @property
    def before_backward(self):
        return self.order[: self.order.index("backward")]

    @property
    def after_backward(self):
        return self.order[self.order.index("backward") + 1 :]


def _boolean(indices):
    return any(index is not None and index.dtype == torch.bool for index in indices)


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    """Masks are not asked whether they hide anything, and a list of a tensor's numbers is one
    read."""
    asked = torch.Tensor.tolist

    def tolist(self):
        if self.dim():
            self.sum().item()
        return asked(self)

    monkeypatch.setattr(rows, "is_free_to_read", lambda mask: False)
    monkeypatch.setattr(torch.Tensor, "tolist", tolist)


def test_a_self_critical_step_reads_no_number_of_its_pass_with_gradient_before_the_backward_pass(
    tmp_path, monkeypatch
):
    reads = []
    policy = SelfCriticalObjective.log_policy

    def noted(self, *args):
        reads.append(list(waits.order))
        return policy(self, *args)

    stage = SelfCritical(
        epochs=1, learning_rate=0.01, images_per_batch=5, sampling="beam", samples=3
    )
    monkeypatch.setattr(SelfCriticalObjective, "log_policy", noted)
    loop = training(tmp_path, stage=stage)
    (batch,) = loop.batches.read([list(range(IMAGES))])
    with Waits() as waits:
        loop.step(batch, Counters(), steps=1)
    ((*before,),) = reads
    after = waits.before_backward[len(before) :]
    # Rewards are on the CPU: their mean and deviation are read there.
    assert after == ["read", "read"]
    # loss, norm of the gradient and the policy's numbers at once
    assert waits.after_backward == ["read"]


@pytest.mark.parametrize(
    "config", [config for _, config in EXAMPLES], ids=[name for name, _ in EXAMPLES]
)
def test_decoding_waits_once_a_token(config):
    model, images = built(config), random_images(config)
    step = with_banned_tokens(model.step, [*BANNED, EOS])
    batch = DecodingBatch(B, BOS, EOS, PAD, CPU)
    with torch.no_grad():
        memory = model.encode(images)
        with Waits() as searching:
            beam_search(
                step, model.start(memory), batch, DecodingSettings(beam=3, max_length=WORDS)
            )
        with Waits() as sampling:
            sample(step, model.start(memory), batch, max_length=WORDS, samples=2)
    assert searching.order == ["read"] * WORDS + ["length"]  # at the end all images leave
    assert sampling.order == ["read"] * WORDS
