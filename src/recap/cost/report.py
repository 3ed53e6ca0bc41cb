"""What a plan needs and costs, gathered for one screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recap.cost.tools import Tool, tools
from recap.cost.work import Cost, TableWork, Work, jobs, tables
from recap.models.check import check_models
from recap.plan.cost import Costs, StoreCost, TrainingCost
from recap.plan.outside import Requirement, requirements
from recap.plan.paths import Paths
from recap.plan.run_plan import RunPlan
from recap.plan.schedule import Job
from recap.plan.step_costs import StepCosts, cost_tables


@dataclass(frozen=True)
class Report:
    """What `recap plan` prints."""

    plan: RunPlan  #: the plan
    missing: Sequence[Requirement]  #: all outside files and hub files that are not here
    tools: Sequence[Tool]  #: that it needs, here or not
    stores: Sequence[StoreCost]  #: the feature stores
    tables: Sequence[TableWork]  #: the work by table
    machine: str | None  #: whose seconds are known for all jobs, the one that was measured last; None: of none
    #: jobs of the trainings and evaluations with their seconds, by what the seconds are of
    schedules: Mapping[str, Mapping[Work, Job]]
    links: bool  #: whether DVC's cache links files; else it copies them

    @property
    def trainings(self) -> list[TrainingCost]:
        """All trainings."""
        return [cost for table in self.tables for cost in table.costs if isinstance(cost, TrainingCost)]


def costs_of(plan: RunPlan) -> Costs:
    """Return the costs of a plan from its parameter files, what was timed here, and the project's own table."""
    parameters = check_models(plan, Path(Paths(plan).work) / "checked_models.json")
    return Costs(plan, parameters, StepCosts.read(cost_tables(plan.params)))


def report(plan: RunPlan, costs: Costs, *, tflops: float) -> Report:
    """Gather what a plan needs and costs.

    Args:
        plan: the plan.
        costs: of its jobs.
        tflops: 10^12 operations per second that a GPU is assumed to sustain.
    """
    work = tables(plan, costs)
    every = [cost for table in work for cost in table.costs]
    shared = set.intersection(*(set(cost.seconds) for cost in every))
    machine = next((name for name in every[0].seconds if name in shared), None)

    def assumed(cost: Cost) -> float:
        return cost.gflop * 1e9 / (tflops * 1e12)

    schedules = {f"GPUs of {tflops:g} TFLOP/s": jobs(plan, costs, assumed)}
    if machine is not None:
        name = machine
        schedules = {machine: jobs(plan, costs, lambda cost: cost.seconds[name])} | schedules
    return Report(
        plan=plan,
        missing=requirements(Paths(plan)),
        tools=tools(plan),
        stores=costs.stores,
        tables=work,
        machine=machine,
        schedules=schedules,
        links=_dvc_links(),
    )


def _dvc_links() -> bool:
    """Return whether the configuration of DVC in this folder says that its cache links files."""
    from configparser import ConfigParser

    parser = ConfigParser()
    parser.read([".dvc/config", ".dvc/config.local"])
    kinds = [kind.strip() for kind in parser.get("cache", "type", fallback="copy").strip('"').split(",")]
    return "copy" not in kinds[:1]
