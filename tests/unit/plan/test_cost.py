"""What trainings, evaluations and stores cost, from counts per image."""

import pytest

from helpers.plans import PARAMS, planned
from recap.plan.costs import Costs, Estimate, inputs_of

MILLION = 10**6


class OneEach:
    """Costs an image of any shape the same."""

    def __init__(self, **work):
        self.work = work

    def of(self, shape, parameters):
        seconds = {"here": self.work[shape.work]}
        return Estimate(gflop=self.work[shape.work], saved_mb=2.0, seconds=seconds, measured=False)


@pytest.fixture(scope="module")
def costs():
    plan = planned(PARAMS, tables=["xlan/t1"])
    parameters = {inputs_of(run): MILLION for run in plan.scored()}
    return Costs(plan, parameters, OneEach(xe=5.0, scst=7.0, decode=1.0))


def test_a_training_costs_its_images_and_its_validations(costs):
    for run in costs.plan.trained():
        cost, stage = costs.training(run), costs.amounts.stage(run)
        images = cost.steps * stage.images_per_batch
        validated = costs.amounts.validations(run) * 100
        of_a_step = {"xe": 5.0, "scst": 7.0}[run.stage]
        assert cost.gflop == pytest.approx(of_a_step * images + validated)
        assert cost.seconds["here"] == pytest.approx(cost.gflop)
        assert cost.weights == 4 * MILLION
        assert cost.memory == pytest.approx(16 * MILLION + 2 * MILLION * stage.images_per_batch)
        assert cost.state == 16 * MILLION


def test_an_evaluation_decodes_the_test_images_once(costs):
    cost = costs.evaluation(costs.plan.scored()[0])
    assert (cost.images, cost.gflop, cost.seconds) == (200, 200.0, {"here": 200.0})


def test_a_store_has_the_vectors_of_its_images(costs):
    (store,) = costs.stores
    values = 3300 * 7 * 7 * 192 * 2
    assert (store.images, store.all_images, store.at_most) == (3300, 3300, False)
    assert values < store.bytes < 1.02 * values


def test_one_shape_of_every_kind_and_work_is_measured_first(costs):
    shapes = costs.shapes()
    kinds = {(shape.model.kind, shape.work) for shape in shapes}
    assert len({(shape.model.kind, shape.work) for shape in shapes[: len(kinds)]}) == len(kinds)
