"""One rehearsal: a paper's workflow from an empty folder to tables,
figures, studies, a report and MLflow."""

from __future__ import annotations

import errno
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from recap.cli.doctor import plan_tools
from recap.core.documents import read_json, write_json
from recap.core.errors import ConfigError, nearest
from recap.plan.plan import Plan
from recap.plan.report import SystemTool
from recap.plan.run_jobs import checkpoint
from recap.settings.kinds import VARIABLE, load_plugins
from rehearsal.prepare import SITE, prepare, rehearsable
from rehearsal.server import serve
from rehearsal.web import web_picture
from rehearsal.workflow import PLUGIN, Workflow, repro

STATE = "rehearsal.json"


@dataclass
class State:
    """What is noted of a rehearsal in its folder, for the next call."""

    paper: str
    short: bool
    port: Annotated[int, Field(ge=0, lt=2**16)] = 0
    by_hand: dict[str, str] = field(default_factory=dict)  # files that a person brings -> the steps
    minutes: float = 0.0  # that all calls took which came to an end
    planned: dict[str, int] = field(default_factory=dict)  # jobs by rule

    def save(self) -> None:
        """Write it into the working folder."""
        write_json(STATE, vars(self))


@dataclass(frozen=True)
class TrainedRow:
    """A row of a table, the optimizer steps of its stages (of its first seed),
    and the command that trains it alone."""

    row: str
    steps: tuple[int, ...]
    command: str


@dataclass(frozen=True)
class Rehearsed:
    """What became of a rehearsal."""

    folder: Path
    state: State
    run: Counter[str]  # jobs by rule
    stand_ins: list[str]  # features that stand-ins for detectors made
    tools: list[SystemTool]  # that the paper needs and this machine lacks
    rows: list[TrainedRow]

    @property
    def planned(self) -> Counter[str]:
        return Counter(self.state.planned)


def rehearse(
    paper: str, *, params: Path, snakefile: Path, folder: Path, short: bool, cores: int
) -> Rehearsed:
    """Rehearse a paper in a folder, new or of an unfinished rehearsal.

    The short form has not all rows, and no DVC.
    """
    start = time.monotonic()
    params, snakefile = params.absolute(), snakefile.absolute()
    if paper not in rehearsable(params):
        raise ConfigError(
            f"there is no paper {paper!r} to rehearse; {nearest(paper, rehearsable(params))}"
        )
    state = open_folder(folder, paper, short)
    with chdir(folder), _served(state.port) as url:
        state.port = int(url.rpartition(":")[2])
        state.save()
        _load_stand_ins()
        prepared = prepare(paper, params, url=url, short=short)
        state.by_hand |= prepared.by_hand
        workflow = Workflow(snakefile, prepared.configfile, cores, url)
        state.planned = state.planned or workflow.planned()
        state.save()
        workflow.run()
        if not short:
            repro(workflow)
        left = workflow.planned()
        state.minutes += (time.monotonic() - start) / 60
        state.save()
        return Rehearsed(
            folder=Path.cwd(),
            state=state,
            run=Counter(state.planned) - left,
            stand_ins=prepared.stand_ins,
            # A GPU is not needed for a rehearsal.
            tools=[
                tool
                for tool in plan_tools(prepared.plan)
                if not tool.version and tool.name != "GPU"
            ],
            rows=_trained_rows(prepared.plan),
        )


def _trained_rows(plan: Plan) -> list[TrainedRow]:
    rows = []
    for row in plan.rows:
        first = row.runs[0].parts()[0]
        folders = [Path(checkpoint(plan, stage)).parent for stage in plan.stages(first)]
        steps = tuple(read_json(folder / "training.json")["steps"] for folder in folders)
        name = f"{row.table}/{row.row.id}"
        rows.append(
            TrainedRow(name, steps, f"recap train --row {name} --scale {plan.profile.scale}")
        )
    return rows


def open_folder(folder: Path, paper: str, short: bool) -> State:
    """Return what is noted of a rehearsal in a folder."""
    file = folder / STATE
    if not file.exists():
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(
                f"{folder}: is not empty, and no rehearsal is in it; name a new folder"
            )
        folder.mkdir(parents=True, exist_ok=True)
        return State(paper, short)
    state: State = read_json(file, State)
    if (state.paper, state.short) != (paper, short):
        raise ConfigError(f"{folder}: has a rehearsal of another paper or form; name a new folder")
    return state


@contextmanager
def _served(port: int) -> Iterator[str]:
    """Serve the miniatures at the port that their addresses have."""
    try:
        with serve(Path(SITE).absolute(), made=web_picture, port=port) as url:
            yield url
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise ConfigError(
            f"port {port} of this rehearsal is in use; stop what listens there, or name a new "
            "folder"
        ) from error


def _load_stand_ins() -> None:
    """Make the stand-ins known to this process,
    as the environment of the workflow makes them known to its jobs."""
    plugins = os.environ.get(VARIABLE, "").split(",")
    os.environ[VARIABLE] = ",".join(dict.fromkeys(filter(None, [*plugins, PLUGIN])))
    load_plugins()


def rehearsed(paper: str, **how: Any) -> str:
    """Rehearse a paper, and return what is said of it."""
    return summary(rehearse(paper, **how))


def summary(done: Rehearsed) -> str:
    """Return the summary of a rehearsal, as lines of text."""
    return "\n".join(_lines(done))


def _lines(done: Rehearsed) -> Iterator[str]:
    state, planned = done.state, done.planned
    jobs = f"{done.run.total()} of {planned.total()} jobs"
    yield (
        f"{state.paper}: {len(done.run)} of {len(planned)} rules run, {jobs}, {state.minutes:.1f} "
        "minutes"
    )
    for rule, count in sorted(planned.items()):
        yield f"  {rule:32} {done.run[rule]:4} of {count}"
    if done.stand_ins:
        yield (
            f"detectron2 is not installed: stand-ins made {', '.join(done.stand_ins)}, in the form "
            "of the detectors' stores; no detector was tried"
        )
    yield (
        f"{len(done.rows)} rows trained; steps of each stage, and the command that trains the row "
        "alone:"
    )
    for row in done.rows:
        yield f"  {row.row:40} {' + '.join(map(str, row.steps)):>8}  {row.command}"
    left = [f"{name}: {steps}" for name, steps in sorted(state.by_hand.items())]
    left += [f"{tool.name}: {tool.without} ({tool.get})" for tool in done.tools]
    yield "left to a person:" if left else "left to a person: nothing"
    yield from (f"  {each}" for each in left)
    yield f"all of it: {done.folder}"
