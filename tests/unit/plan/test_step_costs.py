"""What a step costs: as measured, or by comparison with what was."""

from datetime import date

import pytest

from helpers.plans import PARAMS, planned
from helpers.refusals import refused
from recap.core.errors import ConfigError
from recap.plan.amounts import Amounts
from recap.plan.costs import StepCost, StepCosts, add_costs


@pytest.fixture(scope="module")
def shapes():
    plan = planned(PARAMS, tables=["xlan/t1"])
    amounts = Amounts(plan)
    shapes = [*map(amounts.training_shape, plan.trained()), *map(amounts.decoding_shape, plan.scored())]
    return list({shape.key: shape for shape in shapes}.values())


def row(shape, **changes):
    values = {"kind": shape.model.kind, "work": shape.work, "key": shape.key, "parameters": 1_000_000}
    values |= {"vectors": shape.inputs.vectors, "tokens": shape.tokens, "images": 4, "gflop": 2.0, "saved_mb": 3.0}
    values |= {"seconds": 0.5, "device": "cpu", "machine": "a core", "torch": "2.13.0"}
    return StepCost(**{**values, "measured_on": date(2026, 11, 24), **changes})


def test_a_measured_shape_costs_what_was_measured(shapes):
    cost = StepCosts([row(shapes[0])]).of(shapes[0], 1_000_000)
    assert (cost.gflop, cost.saved_mb, cost.seconds, cost.measured) == (2.0, 3.0, {"a core, one core": 0.5}, True)


def test_another_size_of_a_measured_kind_is_scaled_from_the_nearest_and_the_first_table_counts_first(shapes):
    cost = StepCosts([row(shapes[0], key="0" * 16)]).of(shapes[0], 2_000_000)
    assert (cost.gflop, cost.saved_mb, cost.measured) == (pytest.approx(4.0), pytest.approx(6.0), False)
    assert cost.seconds == {"a core, one core": pytest.approx(1.0)}
    rows = [row(shapes[0], key="1" * 16, parameters=100), row(shapes[0], key="2" * 16, gflop=9.0)]
    assert StepCosts(rows).of(shapes[0], 1_000_000).gflop == pytest.approx(9.0)
    own = row(shapes[0], seconds=0.1, machine="this GPU", device="cuda")
    assert list(StepCosts([own, row(shapes[0])]).of(shapes[0], 1).seconds) == ["this GPU", "a core, one core"]


def test_of_a_kind_that_was_not_measured_operations_follow_from_its_parameters(shapes):
    shape = next(each for each in shapes if each.work == "xe")
    cost = StepCosts([]).of(shape, 10**6)
    assert cost.gflop == pytest.approx(6 * 1e-3 * (shape.inputs.vectors + shape.tokens))
    assert cost.seconds == {} and not cost.measured


def test_a_seed_an_epoch_or_a_rate_is_no_other_shape(shapes):
    plan = planned(PARAMS, tables=["xlan/t1"])
    assert len(shapes) < len(plan.trained()) + len(plan.scored())


def test_a_table_is_written_and_read_and_a_line_replaces_its_own(tmp_path, shapes):
    table = tmp_path / "measured.csv"
    add_costs(table, [row(shapes[0]), row(shapes[1])])
    add_costs(table, [row(shapes[0], seconds=0.25)])
    costs = StepCosts.read([table, tmp_path / "none.csv"])
    assert len(costs.rows) == 2
    assert costs.of(shapes[0], 1).seconds == {"a core, one core": 0.25}


def test_a_damaged_line_is_named(tmp_path, shapes):
    table = tmp_path / "measured.csv"
    add_costs(table, [row(shapes[0])])
    table.write_text(table.read_text().replace(",0.5,", ",slow,"))
    with refused(ConfigError, "measured.csv line 2"):
        StepCosts.read([table])


def test_the_projects_table_covers_every_kind_of_the_papers_and_names_its_machine():
    costs = StepCosts.read([PARAMS / "measured_steps.csv"])
    kinds = {(each.kind, each.work) for each in costs.rows}
    for kind in ("acf", "fusion", "joined_transformer", "transformer", "visual_gpt", "x_transformer", "xlan"):
        assert {(kind, work) for work in ("xe", "scst", "decode")} <= kinds
    assert {("zodiac", "xe"), ("zodiac", "decode")} <= kinds
    assert all(each.machine for each in costs.rows)
