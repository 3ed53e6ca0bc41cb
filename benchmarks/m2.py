"""M2 at COCO's sizes: cross-entropy step, self-critical step from beams, and beam search."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks import plain_m2
from benchmarks.beam import search
from benchmarks.figures import Case, seconds
from benchmarks.plain import EOS, PAD, DictionaryCiderD, repeated
from benchmarks.plain_decoding import NEVER, padded_loss
from benchmarks.shapes import CAPTIONS, FEATURES, LENGTH, WORDS, batch, captions, vectors
from benchmarks.step import cross_entropy, floor, learner, plain_learner
from helpers.model_cases import build_model
from recap.models.images import InputSpec
from recap.nn.fast import fixed_weights
from recap.nn.rows import PackedIndex
from recap.papers.m2.model import M2
from recap.settings import CrossEntropy, SelfCritical
from recap.training.objectives import SelfCriticalObjective, gather_log_probabilities
from recap.training.optim import build_optimizer

SHAPES = (
    f"3+3 layers of 512, 40 slots, 10 images x {CAPTIONS}, 50 regions of {FEATURES}, {WORDS} words"
)
XE = CrossEntropy(epochs=1, learning_rate=1e-5, clip_value=None)
SCST = SelfCritical(
    epochs=1,
    learning_rate=1e-6,
    clip_value=None,
    sampling="beam",
    baseline="mean",
    document="caption",
    reward_end_token=False,
)


def model_of() -> M2:
    """Return the released sizes, which are the defaults, with the same random weights at each
    call."""
    torch.manual_seed(0)
    model = build_model({"kind": "m2"}, InputSpec({"main": FEATURES}, WORDS))
    assert isinstance(model, M2)
    return model


def plain_xe_loss(model: M2) -> Tensor:
    """Loss of all captions, padded, each with its own copy of the image."""
    data = batch()
    rows = data.tokens.flatten(0, 1)
    features, mask = repeated(*vectors(data), CAPTIONS)
    return padded_loss(
        plain_m2.scores(model, rows[:, :-1], plain_m2.encode(model, features, mask), mask), rows
    )


def xe() -> Case:
    """A cross-entropy step."""
    return cross_entropy("xe.m2", SHAPES, XE, model_of, plain_xe_loss)


def plain_scst_loss(model: M2, scorer: DictionaryCiderD) -> Tensor:
    """Beams with their graph, rewards from dictionaries against the mean of the image's beams."""
    data = batch()
    said, chosen = plain_m2.beam_search(model, *vectors(data), CAPTIONS, LENGTH, NEVER)
    words = [
        [word for word in row if word not in (PAD, EOS)] for row in said.flatten(0, 1).tolist()
    ]
    owners = [image for image in data.image_ids for _ in range(CAPTIONS)]
    rewards = torch.tensor(scorer.score(owners, words), dtype=chosen.dtype).view(-1, CAPTIONS)
    advantage = rewards - rewards.mean(1, keepdim=True)
    return -(chosen.mean(-1) * advantage).mean()


def scst() -> Case:
    """Beams, reward, loss, backward and Adam; nothing drops out on either side."""
    model, slow = model_of().eval(), model_of().eval()
    data, references = batch(), captions(seed=2)
    objective = SelfCriticalObjective(model, SCST, references=references, max_length=LENGTH)
    with fixed_weights():
        memory = model.encode(data.images)
        said, _ = objective.draw(memory)
        index = PackedIndex(said != PAD)
        scored = gather_log_probabilities(objective.log_policy(memory, said, index), said, index)
        theirs, chosen = plain_m2.beam_search(slow, *vectors(data), CAPTIONS, LENGTH, NEVER)
    same = (said == theirs[..., : said.shape[-1]]).float().mean().item()
    difference = (scored.sum(-1) - chosen.sum(-1)).abs().max().item()
    step = learner(
        model, build_optimizer(model.parameters(), SCST), SCST, lambda: objective(data).loss
    )
    scorer = DictionaryCiderD(references)

    def split() -> dict[str, object]:
        with fixed_weights():
            draw = seconds(lambda: objective.draw(model.encode(data.images)))
            reward = seconds(lambda: objective.reward(data.image_ids, said))
        parts = {"encoder and beams": draw, "reward": reward, "rest": seconds(step) - draw - reward}
        return {"split": {name: round(value, 4) for name, value in parts.items()}, **floor(step)}

    reference = plain_learner(slow, SCST, lambda: plain_scst_loss(slow, scorer))
    agreement = (
        f"{100 * same:.1f} % of the words equal, log-probabilities of a caption differ by "
        f"{difference:.1e}"
    )
    return Case("scst.m2", f"{SHAPES}, beam 5, length {LENGTH}", step, reference, agreement, split)


def beam() -> Case:
    """Beam search of width 5."""
    model, slow = model_of().eval(), model_of().eval()
    data, ours = batch(), search(model)

    @torch.no_grad()
    def reference() -> Tensor:
        return plain_m2.beam_search(slow, *vectors(data), 5, LENGTH)[0]

    same = (ours() == reference()).float().mean().item()
    shapes = (
        f"3+3 layers of 512, 40 slots, 10 images x 50 regions, beam 5, {LENGTH} words of {WORDS}"
    )
    return Case(
        "beam.m2",
        shapes,
        ours,
        reference,
        f"{100 * same:.1f} % of the words equal",
        lambda: floor(ours),
    )
