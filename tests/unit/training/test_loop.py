"""The loop on a tiny captioning task: it learns,
it keeps the best weights, it names what went wrong."""

import pytest
import torch
from safetensors.torch import load_file

from helpers.refusals import refused
from helpers.training import CAPTIONS, STAGES, Store, training
from recap.core.errors import TrainingError
from recap.decoding.step import NonFiniteLogits
from recap.settings import CrossEntropy, SelfCritical
from recap.training.distributed import Group
from recap.training.run import validator

pytestmark = pytest.mark.seconds


def test_best_weights_survive_a_worse_epoch_and_negative_scores(tmp_path):
    scores = [-3.2, -1.0, -2.0, -5.0]
    loop = training(tmp_path, scores=scores)
    kept = []
    epoch = loop._epoch
    loop._epoch = lambda: (epoch(), kept.append(loop.best_weights.read_bytes()))
    counters = loop.run()
    assert (counters.best, counters.best_epoch) == (-1.0, 2)
    assert kept[1] == kept[2] == kept[3] != kept[0]
    assert set(load_file(loop.best_weights)) == set(loop.model.state_dict())


@pytest.mark.parametrize("patience", [0, 3])
def test_plateau_drops_the_rate(tmp_path, patience):
    schedule = {"kind": "plateau", "learning_rate": 0.01, "factor": 0.1, "patience": patience}
    stage = CrossEntropy(epochs=9, images_per_batch=5, schedule=schedule)
    scores = [0.3, 0.2, 0.4, 0.1, 0.40002, 0.40003, 0.1, 0.2, 0.3]
    history = training(tmp_path, stage=stage, scores=scores).run().history
    weight = torch.nn.Parameter(torch.zeros(1))
    adam = torch.optim.Adam([weight], lr=0.01)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(
        adam, mode="max", factor=0.1, patience=patience
    )
    expected = []
    for score in scores:
        expected.append(adam.param_groups[0]["lr"])
        theirs.step(score)
    assert [line["learning_rate"] for line in history] == pytest.approx(expected)
    assert len({*expected}) > 1


def test_a_plateau_after_step_decay_counts_from_its_own_first_epoch(tmp_path):
    schedule = {"kind": "step_then_plateau", "learning_rate": 0.01, "factor": 0.5, "step_size": 2}
    schedule |= {"plateau_from": 3, "plateau_factor": 0.1, "patience": 1}
    stage = CrossEntropy(epochs=8, images_per_batch=5, schedule=schedule)
    history = (
        training(tmp_path, stage=stage, scores=[0.5, 0.4, 0.3, 0.2, 0.1, 0.6, 0.1, 0.2])
        .run()
        .history
    )
    expected = [0.01, 0.01, 0.005, 0.005, 0.005, 0.0005, 0.0005, 0.0005]
    assert [line["learning_rate"] for line in history] == pytest.approx(expected)


@pytest.mark.parametrize(
    "changes", [{}, {"clip_value": None}, {"clip_norm": 1.0}], ids=["value", "none", "norm"]
)
@pytest.mark.parametrize("lost", [torch.nan, torch.inf])
def test_a_gradient_that_is_no_number_is_not_stepped_with_and_its_images_are_named(
    tmp_path, lost, changes
):
    loop = training(
        tmp_path, stage=CrossEntropy(epochs=4, learning_rate=0.01, images_per_batch=5, **changes)
    )
    loop.checkpoint_minutes = 1e-9

    def spoiled(gradient):
        return gradient * lost if loop.progress.step == 4 else gradient

    loop.model.output.bias.register_hook(spoiled)
    with refused(TrainingError, "step 5", ", ".join(map(str, loop.batches.order(1)[1]))):
        loop.run()
    state = torch.load(tmp_path / "last.pt", weights_only=True)
    assert state["counters"]["step"] == 4
    for name, value in loop.model.state_dict().items():
        assert torch.equal(value, state["model"][name]) and value.isfinite().all()


def test_a_validation_without_numbers_is_one_sentence(tmp_path):
    loop = training(tmp_path)

    def validate():
        if loop.progress.step == 6:
            raise NonFiniteLogits(1, [0])
        return 0.0

    loop.validate = validate
    with refused(TrainingError, "tiny", "step 6", "learning rate"):
        loop.run()


@pytest.mark.parametrize("stage", STAGES[:2], ids=["xe", "scst"])
def test_a_model_without_numbers_stops_before_a_step_is_taken(tmp_path, stage):
    loop = training(tmp_path, stage=stage)
    with torch.no_grad():
        loop.model.output.bias[4] = torch.nan
    with refused(TrainingError, "images", "learning rate"):
        loop.run()
    assert not (tmp_path / "last.pt").exists()


def test_both_stages_learn(tmp_path):
    stage = CrossEntropy(epochs=30, learning_rate=0.02, images_per_batch=6)
    loop = training(tmp_path / "xe", stage=stage)
    history = loop.run().history
    assert history[-1]["loss"] < 0.5 * history[0]["loss"]
    stage = SelfCritical(epochs=20, learning_rate=0.04, images_per_batch=6)
    history = training(tmp_path / "scst", stage=stage).run().history
    assert history[-1]["reward"] > history[0]["reward"] + 0.5


@pytest.mark.parametrize(
    ("scores", "best", "epoch"), [([0.4, 0.1, 0.3], 0.4, 0), ([0.4, 0.1, 0.5], 0.5, 2)]
)
def test_the_weights_a_stage_begins_with_stay_unless_an_epoch_is_better(
    tmp_path, scores, best, epoch
):
    stage = SelfCritical(epochs=2, learning_rate=0.01, images_per_batch=5)
    loop = training(tmp_path, stage=stage, scores=scores, trained=True)
    start = {name: value.clone() for name, value in loop.model.state_dict().items()}
    counters = loop.run()
    assert (counters.best, counters.best_epoch) == (best, epoch)
    assert [(line["epoch"], line["val_cider_d"]) for line in counters.history] == [
        *enumerate(scores)
    ]
    kept = load_file(loop.best_weights)
    assert all(torch.equal(kept[name], start[name]) for name in start) is (epoch == 0)


@pytest.mark.parametrize("score", [0.0, 7.3368])
def test_of_equal_scores_the_last_epoch_is_kept_and_said(tmp_path, capsys, score):
    stage = CrossEntropy(epochs=9, learning_rate=0.01, images_per_batch=5, patience=3)
    loop = training(tmp_path, stage=stage, scores=[score] * 9)
    counters = loop.run()
    assert counters.best_epoch == counters.epoch == 4
    for name, value in load_file(loop.best_weights).items():
        assert torch.equal(value, loop.model.state_dict()[name])
    said = capsys.readouterr().err
    assert f"{score:.4f}" in said and "one validation image" not in said
    again = training(tmp_path, stage=stage)
    assert (again.run().epoch, again.progress.best_epoch) == (counters.epoch, counters.best_epoch)


def test_the_weights_a_stage_begins_with_stay_where_all_scores_are_equal(tmp_path):
    stage = SelfCritical(epochs=2, learning_rate=0.01, images_per_batch=5)
    loop = training(tmp_path, stage=stage, scores=[0.4] * 3, trained=True)
    start = {name: value.clone() for name, value in loop.model.state_dict().items()}
    assert loop.run().best_epoch == 0
    kept = load_file(loop.best_weights)
    assert all(torch.equal(kept[name], start[name]) for name in start)


@pytest.mark.parametrize(("number", "warned"), [(1, True), (2, False)])
def test_only_one_validation_image_is_said_to_be_too_few(capsys, number, warned):
    images = {image: CAPTIONS[image] for image in range(number)}
    validator(
        None, CrossEntropy(epochs=1, learning_rate=0.01), Store(), images, 4, None, Group(), "tiny"
    )
    assert ("validation image" in capsys.readouterr().err) is warned


SCHEDULES = [
    {"kind": "constant", "learning_rate": 0.01},
    {"kind": "noam"},
    {"kind": "step", "learning_rate": 0.01, "factor": 0.5, "step_size": 1},
    {"kind": "plateau", "learning_rate": 0.01, "factor": 0.5, "patience": 1},
    {"kind": "cosine", "learning_rate": 0.01},
    {"kind": "table", "table": {0: 0.01}},
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=[schedule["kind"] for schedule in SCHEDULES])
def test_a_training_shorter_than_its_warm_up_is_said(tmp_path, capsys, schedule):
    for warmup in (6, 60):  # there are 6 steps
        stage = CrossEntropy(epochs=2, images_per_batch=5, schedule={**schedule, "warmup": warmup})
        training(tmp_path / str(warmup), stage=stage).run()
        said = capsys.readouterr().err
        assert ("warm-up" in said) is (warmup == 60)
    assert "60 steps" in said and "training of 6" in said and "0.1 of" in said


@pytest.mark.parametrize(
    ("changes", "scores", "epochs"),
    [({}, [0.1, 0.3, 0.2, 0.1, 0.9], 4), ({"validate_every": 2}, [0.5, 0.4, 0.3], 6)],
)
def test_patience_counts_validations(tmp_path, changes, scores, epochs):
    stage = CrossEntropy(epochs=20, learning_rate=0.01, images_per_batch=5, patience=2, **changes)
    assert training(tmp_path, stage=stage, scores=scores).run().epoch == epochs


def test_every_third_epoch_is_validated_and_the_last(tmp_path):
    stage = CrossEntropy(epochs=5, learning_rate=0.01, images_per_batch=5, validate_every=3)
    loop = training(tmp_path, stage=stage, scores=[0.5, 0.1])
    counters = loop.run()
    assert [line["val_cider_d"] for line in counters.history] == [None, None, 0.5, None, 0.1]
    assert (counters.best, counters.best_epoch, counters.epochs_since_best) == (0.5, 3, 1)
