"""What trainings and stores cost, by steps that were measured."""

import pytest

from helpers.plans import PARAMS, measured_file, measured_row, planned
from recap.core.errors import RecapError
from recap.plan.costs import Costs, costs_of, read_costs
from recap.plan.stores import used_stores
from recap.plan.workload import Workload


@pytest.fixture(scope="module")
def plan():
    return planned(PARAMS, tables=["xlan/t1"])


@pytest.fixture(scope="module")
def shapes(plan):
    return Workload(plan).shapes()


def test_a_step_of_each_kind_work_and_size_can_be_measured(plan, shapes):
    names = [(shape.model.kind, shape.work, tuple(shape.sizes.items())) for shape in shapes]
    assert len(set(names)) == len(names)
    kinds = {plan.settings.get("models", run.model).kind for run in plan.trained}
    assert {(kind, work) for kind, work, _ in names} >= {(kind, "decode") for kind in kinds}


@pytest.mark.parametrize("changes", [{"tiny": True}, {"steps": [{"cost": {}, "compiled": False}]}])
def test_a_measured_file_of_no_use_is_refused_by_name(changes, tmp_path, shapes):
    with pytest.raises(RecapError, match=r"measured\.json"):
        read_costs(measured_file(tmp_path, [measured_row(shapes[0])], **changes))


def test_a_training_costs_its_images_and_its_validations(plan, shapes):
    seconds = {"xe": 5.0, "scst": 7.0, "decode": 1.0}
    rows = [measured_row(shape, seconds=seconds[shape.work]) for shape in shapes]
    costs = Costs(plan, rows, None)
    assert costs.machine == "one core of a core"
    for run in plan.trained:
        stage, cost = costs.stage(run), costs.training(run)
        step = costs.training_shape(run)
        row = next(
            row
            for row in rows
            if (row.kind, row.work, row.sizes) == (step.model.kind, step.work, step.sizes)
        )
        images = costs.steps(run) * stage.images_per_batch
        of_images = (
            seconds[run.stage]
            * images
            * ((step.inputs.vectors + step.tokens) / (row.vectors + row.tokens))
        )
        validated = (-(-stage.epochs // stage.validate_every) + (run.stage == "scst")) * 100
        assert of_images < cost.seconds <= of_images + validated  # their beam is smaller
        assert cost.weights == 4_000_000


def test_seconds_of_an_assumed_gpu_follow_from_operations(plan, shapes):
    run = plan.trained[0]
    rows = [measured_row(shape) for shape in shapes]
    one, two = (Costs(plan, rows, tflops).training(run) for tflops in (1.0, 2.0))
    timed = Costs(plan, rows, None).training(run)
    assert one.seconds == pytest.approx(2 * two.seconds)
    assert one.seconds == pytest.approx(timed.seconds / 0.5 * 2e9 / 1e12)


def test_the_nearest_step_of_the_same_sizes_counts_and_no_other(plan, shapes):
    run = plan.trained[0]
    costs = Costs(plan, [measured_row(shape) for shape in shapes], None)
    far = [row.model_copy(update={"vectors": 99.0, "seconds": 9.0}) for row in costs.measured]
    assert Costs(plan, [*far, *costs.measured], None).training(run) == costs.training(run)
    other = [
        row.model_copy(update={"sizes": {**row.sizes, "d_model": 1}}) for row in costs.measured
    ]
    assert Costs(plan, other, None).training(run) is None
    steps = [row for row in costs.measured if row.work != "decode"]
    assert Costs(plan, steps, None).training(run) is None  # its validations were not measured


def test_a_measured_file_counts_before_the_projects_own_steps(plan, tmp_path, shapes):
    file = measured_file(tmp_path, [measured_row(shape) for shape in shapes])
    assert costs_of(plan, file).measured == read_costs(file)
    assert costs_of(plan, file, tflops=5).measured[: len(shapes)] == read_costs(file)
    assert costs_of(plan).machine == "a GPU of 10 TFLOP/s"


def test_a_store_has_the_vectors_of_its_images(plan):
    costs = costs_of(plan)
    (store,) = used_stores(plan)
    size, values = costs.store(store), 3300 * 7 * 7 * 192 * 2
    assert costs.used_images(store) == 3300 and not size.at_most
    assert values < size.bytes < 1.02 * values
