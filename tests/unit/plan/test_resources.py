"""Limits of jobs for a cluster."""

import pytest

from helpers.plans import PARAMS, edited, planned
from recap.models.check import check_models
from recap.plan.costs import UNKNOWN, Costs, Resources, StepCosts


def resources(plan):
    return Resources(Costs(plan, check_models(plan), StepCosts.read([PARAMS / "measured_steps.csv"])))


@pytest.fixture(scope="module")
def small():
    return resources(planned(PARAMS, tables=["xlan/t1"], execution={"device": "cpu"}))


def test_a_training_may_take_what_it_holds_and_three_times_its_hours(small):
    run = small.plan.trained()[0]
    cost, need = small.costs.training(run), small.training(run)
    assert 1500 + cost.memory / 1e6 <= need.mem_mb < 1600 + cost.memory / 1e6
    minutes = max(cost.seconds.values()) / 60
    assert need.runtime == pytest.approx(30 + 3 * minutes, abs=1)
    assert need.disk_mb == pytest.approx(100 + 5 * cost.weights / 1e6, abs=1)


def test_each_of_two_nodes_needs_the_memory_of_its_processes(params):
    edited(params, "xlan/recipes/xlan.yaml", processes=4)
    words = {"scale": "paper", "tables": ["xlan/t1"]}
    plans = [planned(params, **words, execution={"device": "cpu", "nodes": n}) for n in (1, 2)]
    one, two = (resources(plan) for plan in plans)
    run = next(each for each in one.plan.trained() if one.plan.recipe(each.recipe).processes == 4)
    assert two.training(run).mem_mb == pytest.approx(one.training(run).mem_mb / 2, abs=1)
    assert two.training(run).runtime == one.training(run).runtime


def test_spice_and_every_model_of_an_ensemble_take_memory(small):
    plan = planned(PARAMS, scale="paper", tables=["xlan/t1"], execution={"device": "cpu"})
    needs = resources(plan)
    one, four = (next(run for run in plan.scored() if bool(run.members) is several) for several in (False, True))
    assert needs.evaluation(four).mem_mb > needs.evaluation(one).mem_mb > 9000
    assert needs.evaluation(four).runtime > needs.evaluation(one).runtime


def test_a_store_may_fill_twice_its_size_for_its_shards_are_beside_it(small):
    (store,) = small.costs.stores
    need = small.store(store.dataset, store.features)
    assert need.disk_mb == pytest.approx(100 + 2 * store.bytes / 1e6, abs=1)


def test_a_gpu_that_was_not_measured_gets_ten_times_the_assumed_time(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    needs = resources(planned(PARAMS, tables=["xlan/t1"]))
    run = needs.plan.trained()[0]
    assert needs.training(run).runtime == 30 + -(-needs.costs.training(run).gflop // (1e4 * 6))


def test_where_the_size_of_a_data_set_is_not_known_limits_are_wide(params):
    edited(params, "datasets/flickr8k.yaml", counts=None)
    needs = resources(planned(params, scale="photos"))
    run = needs.plan.scored()[0]
    assert needs.training(needs.plan.weights(run)) == needs.evaluation(run) == needs.corpus("flickr8k") == UNKNOWN
    assert needs.store("flickr8k", run.features) == UNKNOWN
