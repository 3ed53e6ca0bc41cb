"""The trainings and evaluations of a plan: by table, and as jobs that wait for each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from recap.plan.cost import Costs, EvaluationCost, TrainingCost
from recap.plan.run import Run
from recap.plan.run_plan import RunPlan
from recap.plan.schedule import Job
from recap.plan.submissions import submissions
from recap.settings.params import file_and_part

Cost = TrainingCost | EvaluationCost
Seconds = Callable[[Cost], float]
Work = tuple[Literal["train", "evaluate", "submit"], Run]


@dataclass(frozen=True)
class TableWork:
    """What a table, with all its parts, adds to the tables before it."""

    table: str  #: name of its file
    rows: int  #: that are trained or decoded
    trainings: dict[str, int]  #: of cross-entropy and of the second stage
    evaluations: int  #: of scored runs, and captions for COCO's server
    costs: tuple[Cost, ...]  #: of all of them

    @property
    def steps(self) -> int:
        """Optimizer steps."""
        return sum(cost.steps for cost in self.costs if isinstance(cost, TrainingCost))

    @property
    def gflop(self) -> float:
        """10^9 floating-point operations."""
        return sum(cost.gflop for cost in self.costs)


def tables(plan: RunPlan, costs: Costs) -> list[TableWork]:
    """Return the work of each table; a training that two tables share is counted in the first."""
    found, known = [], set[Run]()
    parts: dict[str, list[str]] = {}
    for name in plan.tables:
        parts.setdefault(file_and_part(plan.params, name)[0], []).append(name)
    for file, names in parts.items():
        scored = [run for name in names for run in plan.table_runs(name) if run not in known]
        scored = list(dict.fromkeys(scored))
        trained = [run for run in trainings(plan, scored) if run not in known]
        known.update(scored, trained)
        of_stages = {stage: sum(run.stage == stage for run in trained) for stage in ("xe", "scst")}
        sent = [costs.submission(each) for name in names for each in submissions(plan, name)]
        both: tuple[Cost, ...] = (*map(costs.training, trained), *map(costs.evaluation, scored), *sent)
        rows = sum(len(plan.tables[name].rows) for name in names)
        found.append(TableWork(file, rows, of_stages, len(scored) + len(sent), both))
    return found


def trainings(plan: RunPlan, scored: Iterable[Run]) -> list[Run]:
    """Return the trainings that scored runs need, each once, in the order in which they can run."""
    return list(dict.fromkeys(stage for run in scored for part in run.parts() for stage in plan.stages(part)))


def jobs(plan: RunPlan, costs: Costs, seconds: Seconds) -> dict[Work, Job]:
    """Return the trainings and evaluations of a plan as jobs, each after those that it waits for.

    Args:
        plan: the plan.
        costs: of its jobs.
        seconds: of a job with this cost.
    """
    found: dict[Work, Job] = {}
    scored = plan.scored()
    for run in trainings(plan, scored):
        first = plan.first_stage(run)
        found["train", run] = Job(seconds(costs.training(run)), (("train", first),) if first != run else ())
    for run in scored:
        weights: tuple[Work, ...] = tuple(("train", plan.weights(part)) for part in run.parts())
        found["evaluate", run] = Job(seconds(costs.evaluation(run)), weights)
    for submission in plan.submissions():
        after = found["evaluate", submission.run].after
        found["submit", submission.run] = Job(seconds(costs.submission(submission)), after)
    return found
