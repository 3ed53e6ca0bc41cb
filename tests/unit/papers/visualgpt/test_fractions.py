"""Figure 7 compares fractions of the data: a step has as many captions at each of them, in both stages."""

from collections import defaultdict

import pytest

from helpers.plans import PARAMS, planned
from recap.data.corpus import Caption, write_corpus
from recap.data.subsets import draw_subset
from recap.training.batches import CaptionBatches

pytestmark = pytest.mark.seconds

PARTS = ("005", "010", "020", "050", "100")
IMAGES = 4000
PRINTED = 25  # the batch of section 7.1


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "corpus.parquet"
    rows = [
        Caption(image, f"{image}.jpg", "train", image * 5 + index, "a dog", ["a", "dog"])
        for image in range(IMAGES)
        for index in range(5)
    ]
    write_corpus(rows, path, dataset="tiny", kind="karpathy", source_sha256="0")
    return path


@pytest.mark.parametrize("scale", ["paper", "scenes"])
@pytest.mark.parametrize("part", PARTS)
def test_a_step_has_as_many_captions_at_every_fraction(corpus, tmp_path, part, scale):
    plan = planned(PARAMS, scale, [f"visualgpt/f7_{part}"])
    (settings,) = {run.recipe: plan.recipe(run.recipe) for run in plan.scored()}.values()
    (fraction,) = {plan.get("subsets", run.subset).fraction for run in plan.scored()}
    assert fraction == int(part) / 100
    drawn = draw_subset(corpus=corpus, name="s", fraction=fraction, unit="pair", seed=1, out=tmp_path / "s.json")
    chosen, captions = set(drawn["caption_ids"]), defaultdict(list)
    for caption in chosen:
        captions[caption // 5].append([caption])
    batches = CaptionBatches(
        features=None, captions=dict(captions), images_per_batch=settings.xe.images_per_batch, seed=1
    )
    steps = [sum(len(captions[image]) for image in step) for step in batches.order(0)]
    assert sum(steps) == len(chosen) == fraction * 5 * IMAGES
    assert sum(steps[:-1]) / len(steps[:-1]) == pytest.approx(PRINTED, rel=0.05)


def test_the_second_stage_has_as_many_samples_at_every_fraction():
    plans = [planned(PARAMS, "paper", [f"visualgpt/f7_{part}"]) for part in PARTS]
    stages = {
        (plan.recipe(run.recipe).scst.images_per_batch, plan.recipe(run.recipe).scst.samples)
        for plan in plans
        for run in plan.scored()
    }
    assert stages == {(10, 5)}
