"""What steps, trainings, evaluations and stores cost."""

import pytest

from helpers.plans import PARAMS, measured_file, measured_row, planned
from recap.core.errors import RecapError
from recap.plan.amounts import Amounts
from recap.plan.costs import TABLE, Costs, estimate, inputs_of, read_costs


@pytest.fixture(scope="module")
def shapes():
    plan = planned(PARAMS, tables=["xlan/t1"])
    amounts = Amounts(plan)
    shapes = [
        *map(amounts.training_shape, plan.trained()),
        *map(amounts.decoding_shape, plan.scored()),
    ]
    return list({shape.key: shape for shape in shapes}.values())


def test_a_measured_shape_costs_what_was_measured(shapes):
    cost = estimate([measured_row(shapes[0])], shapes[0], 1_000_000)
    assert (cost.gflop, cost.saved_mb, cost.seconds, cost.measured) == (
        2.0,
        3.0,
        {"a core, one core": 0.5},
        True,
    )


def test_another_size_of_a_measured_kind_is_scaled_from_the_nearest_and_the_first_table_counts_first(
    shapes,
):
    cost = estimate([measured_row(shapes[0], key="0" * 16)], shapes[0], 2_000_000)
    assert (cost.gflop, cost.saved_mb, cost.measured) == (
        pytest.approx(4.0),
        pytest.approx(6.0),
        False,
    )
    assert cost.seconds == {"a core, one core": pytest.approx(1.0)}
    rows = [
        measured_row(shapes[0], key="1" * 16, parameters=100),
        measured_row(shapes[0], key="2" * 16, gflop=9.0),
    ]
    assert estimate(rows, shapes[0], 1_000_000).gflop == pytest.approx(9.0)
    own = measured_row(shapes[0], seconds=0.1, machine="this GPU", device="cuda")
    assert list(estimate([own, measured_row(shapes[0])], shapes[0], 1).seconds) == [
        "this GPU",
        "a core, one core",
    ]


def test_of_a_kind_that_was_not_measured_operations_follow_from_its_parameters(shapes):
    shape = next(each for each in shapes if each.work == "xe")
    cost = estimate([], shape, 10**6)
    assert cost.gflop == pytest.approx(6 * 1e-3 * (shape.inputs.vectors + shape.tokens))
    assert cost.seconds == {} and not cost.measured


def test_a_measured_file_is_read_before_the_projects_own(tmp_path, shapes):
    rows = read_costs(
        measured_file(tmp_path, [measured_row(shapes[0], seconds=0.25)]), PARAMS / TABLE
    )
    assert estimate(rows, shapes[0], 1).seconds["a core, one core"] == 0.25
    assert len(rows) > 50


@pytest.mark.parametrize("changes", [{"tiny": True}, {"steps": [{"cost": {}, "compiled": False}]}])
def test_a_measured_file_of_no_use_is_refused_by_name(changes, tmp_path, shapes):
    with pytest.raises(RecapError, match=r"measured\.json"):
        read_costs(measured_file(tmp_path, [measured_row(shapes[0])], **changes))


MILLION = 10**6


@pytest.fixture(scope="module")
def costs(shapes):
    plan, work = planned(PARAMS, tables=["xlan/t1"]), {"xe": 5.0, "scst": 7.0, "decode": 1.0}
    probe = Costs(plan, {}, [])
    shapes = [
        *shapes,
        *(
            probe.decoding_shape(run, beam=probe.stage(run).validation_beam)
            for run in plan.trained()
        ),
    ]
    gflop = [(shape, work[shape.work]) for shape in shapes]
    rows = [
        measured_row(shape, gflop=n, seconds=n, saved_mb=2.0, machine="here", device="cuda")
        for shape, n in gflop
    ]
    return Costs(plan, {inputs_of(run): MILLION for run in plan.scored()}, rows)


def test_a_training_costs_its_images_and_its_validations(costs):
    for run in costs.plan.trained():
        cost, stage = costs.training(run), costs.stage(run)
        images = cost.steps * stage.images_per_batch
        validated = (-(-stage.epochs // stage.validate_every) + (run.stage == "scst")) * 100
        of_a_step = {"xe": 5.0, "scst": 7.0}[run.stage]
        assert cost.gflop == pytest.approx(of_a_step * images + validated)
        assert cost.seconds["here"] == pytest.approx(cost.gflop)
        assert cost.weights == 4 * MILLION
        assert cost.memory == pytest.approx(16 * MILLION + 2 * MILLION * stage.images_per_batch)
        assert cost.state == 16 * MILLION


def test_an_evaluation_decodes_the_test_images_once(costs):
    cost = costs.evaluation(costs.plan.scored()[0])
    assert (cost.gflop, cost.seconds) == (200.0, {"here": 200.0})


def test_a_store_has_the_vectors_of_its_images(costs):
    (store,) = costs.stores
    values = 3300 * 7 * 7 * 192 * 2
    assert (store.images, store.all_images, store.at_most) == (3300, 3300, False)
    assert values < store.bytes < 1.02 * values
