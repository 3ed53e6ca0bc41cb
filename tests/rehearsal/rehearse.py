"""One rehearsal: a paper's workflow from an empty folder to tables, figures, studies, a report and MLflow."""

from __future__ import annotations

import errno
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field

from recap.cli.doctor import plan_tools
from recap.core.documents import read_json, write_json
from recap.core.errors import ConfigError
from recap.plan.screen import Tool
from recap.settings.kinds import VARIABLE, load_plugins
from rehearsal.prepare import SITE, check_paper, prepare
from rehearsal.rows import TrainedRow, trained_rows
from rehearsal.server import Misbehave, serve
from rehearsal.versioned import repro
from rehearsal.web import web_picture
from rehearsal.workflow import PLUGIN, Workflow

STATE = "rehearsal.json"


@dataclass
class State:
    """What is noted of a rehearsal in its folder, for the next call."""

    paper: str
    short: bool
    port: Annotated[int, Field(ge=0, lt=2**16)] = 0
    by_hand: dict[str, str] = field(default_factory=dict)
    minutes: float = 0.0
    planned: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def save(self) -> None:
        """Write it into the working folder."""
        write_json(STATE, vars(self))


@dataclass(frozen=True)
class Rehearsed:
    """What became of a rehearsal.

    Attributes:
        planned, run: jobs by rule.
    """

    paper: str  #: folder of ``params/``
    folder: Path  #: where all of it is
    planned: Counter[str]
    run: Counter[str]
    minutes: float  #: that all calls took which came to an end
    by_hand: dict[str, str] = field(default_factory=dict)  #: files that a person brings -> the steps
    stand_ins: list[str] = field(default_factory=list)  #: features that stand-ins for detectors made
    #: that the paper needs and this machine lacks, with what is lost and the command that gets them
    tools: list[str] = field(default_factory=list)
    rows: list[TrainedRow] = field(default_factory=list)  #: the rows of its tables with what was trained of each
    #: a line about each fault and kill that was played in the folder before
    faults: list[str] = field(default_factory=list)


def rehearse(paper: str, *, params: Path, snakefile: Path, folder: Path, short: bool, cores: int) -> Rehearsed:
    """Rehearse a paper in a folder; what an interrupted rehearsal finished there is kept.

    The folder is new or empty, or that of an unfinished rehearsal of the same paper and form. The short form has not
    all rows, and no DVC.
    """
    began = time.monotonic()
    params, snakefile = params.absolute(), snakefile.absolute()
    check_paper(paper, params)
    state = open_folder(folder, paper, short)
    with chdir(folder), served(state.port) as url:
        state.port = int(url.rpartition(":")[2])
        state.save()
        load_stand_ins()
        prepared = prepare(paper, params, url=url, short=short)
        state.by_hand |= prepared.by_hand
        workflow = Workflow(snakefile, prepared.configfile, cores, url)
        state.planned = state.planned or workflow.planned()
        state.save()
        workflow.run()
        if not short:
            repro(workflow)
        left = workflow.planned()
        planned = Counter(state.planned)
        state.minutes += (time.monotonic() - began) / 60
        state.save()
        return Rehearsed(
            paper=paper,
            folder=folder,
            planned=planned,
            run=planned - left,
            minutes=state.minutes,
            by_hand=state.by_hand,
            stand_ins=prepared.stand_ins,
            tools=[
                f"{tool.name}: {tool.without} ({tool.get})" for tool in plan_tools(prepared.plan) if _can_be_got(tool)
            ],
            rows=trained_rows(prepared.plan),
            faults=state.faults,
        )


def _can_be_got(tool: Tool) -> bool:
    """Say whether a tool is missing that a person can install; a GPU is not needed for a rehearsal."""
    return not tool.here and tool.name != "GPU"


def open_folder(folder: Path, paper: str, short: bool) -> State:
    """Return what is noted of a rehearsal in a folder."""
    file = folder / STATE
    if not file.exists():
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"{folder}: is not empty, and no rehearsal is in it; name a new folder")
        folder.mkdir(parents=True, exist_ok=True)
        return State(paper, short)
    state: State = read_json(file, State)
    if (state.paper, state.short) != (paper, short):
        raise ConfigError(f"{folder}: has a rehearsal of another paper or form; name a new folder")
    return state


@contextmanager
def served(port: int, misbehave: Misbehave = lambda *_: None) -> Iterator[str]:
    """Serve the miniatures at the port that their addresses have."""
    try:
        with serve(Path(SITE).absolute(), made=web_picture, port=port, misbehave=misbehave) as url:
            yield url
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        raise ConfigError(
            f"port {port} of this rehearsal is in use; stop what listens there, or name a new folder"
        ) from error


def load_stand_ins() -> None:
    """Make the stand-ins known to this process, as the environment of the workflow makes them known to its jobs."""
    plugins = os.environ.get(VARIABLE, "").split(",")
    os.environ[VARIABLE] = ",".join(dict.fromkeys(filter(None, [*plugins, PLUGIN])))
    load_plugins()
