"""Operations, bytes and seconds of real steps."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from helpers.plans import PARAMS, planned
from recap.measure.steps import Operations, measure, write_steps
from recap.nn.fast import Linear, fixed_weights
from recap.plan.costs import StepCost, read_costs
from recap.plan.workload import Workload

CPU = torch.device("cpu")


def test_a_product_and_its_gradient_are_counted():
    layer, x = nn.Linear(30, 40), torch.rand(7, 30)
    with Operations() as forwards:
        layer(x)
    with Operations() as both:
        layer(x.requires_grad_()).sum().backward()
    assert forwards.total == 2 * 7 * 30 * 40
    assert both.total == 3 * forwards.total


def test_a_packed_product_counts_as_a_plain_one():
    layer, x = Linear(512, 512), torch.rand(3, 512)
    with torch.no_grad(), Operations() as plain:
        layer(x)
    with fixed_weights(), Operations() as packed:
        layer(x)
    assert packed.total == plain.total == 2 * 3 * 512 * 512


def test_fused_attention_is_counted():
    query, key = torch.rand(2, 4, 5, 8, requires_grad=True), torch.rand(2, 4, 9, 8)
    with Operations() as counted:
        nn.functional.scaled_dot_product_attention(query, key, key)
    assert counted.total == 2 * (2 * 4 * 5 * 9 * 8) * 2


@pytest.fixture(scope="module")
def trained():
    plan = planned(PARAMS, tables=["fusion/t2"])
    workload = Workload(plan)
    fusion = [
        run
        for run in plan.trained
        if plan.settings.get("models", run.model).kind == "fusion" and run.stage == "xe"
    ]
    return workload, fusion[0]


def test_a_step_of_any_stage_is_measured_at_its_size(trained):
    workload, run = trained
    shape = workload.training_shape(run)
    step = measure(shape, device=CPU)
    row = StepCost(**step["cost"])
    assert step["launches"] > 100
    assert (row.kind, row.work, row.sizes, row.device) == ("fusion", run.stage, shape.sizes, "cpu")
    assert row.gflop > 0 and row.saved_mb > 0 and row.seconds > 0 and row.machine
    # The parameters but the table of words are multiplied
    # with every vector or token, forwards and backwards.
    assert row.gflop < 8 * row.parameters * (row.vectors + row.tokens) / 1e9


def test_more_captions_cost_more_operations_and_bytes(trained):
    workload, run = trained
    shape = workload.training_shape(run)
    twice = replace(shape, inputs=replace(shape.inputs, captions=2 * shape.inputs.captions))
    one, two = (StepCost(**measure(each, device=CPU)["cost"]) for each in (shape, twice))
    assert one.gflop < two.gflop < 2 * one.gflop  # an image is encoded once
    assert one.saved_mb < two.saved_mb


def test_decoding_keeps_nothing_for_a_backward_pass(trained):
    workload, run = trained
    row = StepCost(**measure(workload.decoding_shape(run), device=CPU)["cost"])
    assert row.work == "decode" and row.saved_mb == 0 and row.gflop > 0


@pytest.mark.seconds
def test_a_plan_reads_the_steps_that_were_written(trained, tmp_path):
    workload, run = trained
    shapes = [workload.training_shape(run), workload.decoding_shape(run)]
    out = tmp_path / "measured.json"
    assert write_steps(out, device=CPU, tiny=False, compiled=False, shapes=shapes) == 2
    assert [(row.work, row.sizes) for row in read_costs(out)] == [
        (shape.work, shape.sizes) for shape in shapes
    ]
