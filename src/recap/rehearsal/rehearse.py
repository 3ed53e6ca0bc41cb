"""One rehearsal: a paper's workflow from an empty folder to tables, figures, studies, a report and MLflow."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recap.core.errors import ConfigError
from recap.core.files.json_files import read_json, write_json
from recap.core.log import log
from recap.core.plugins import load_plugins
from recap.rehearsal.prepare import SITE, Prepared, prepare
from recap.rehearsal.rows import TrainedRow, trained_rows
from recap.rehearsal.server import Served, Site, serve
from recap.rehearsal.web import WebPictures
from recap.rehearsal.workflow import Workflow

STATE = "rehearsal.json"


@dataclass(frozen=True)
class Rehearsed:
    """What became of a rehearsal.

    Attributes:
        paper: folder of ``params/``.
        folder: where all of it is.
        planned, run: jobs by rule.
        minutes: that this call took.
        by_hand: files that a person brings -> the steps.
        stand_ins: features that stand-ins for detectors made.
        rows: the rows of its tables with what was trained of each.
    """

    paper: str
    folder: Path
    planned: Counter[str]
    run: Counter[str]
    minutes: float
    by_hand: dict[str, str] = field(default_factory=dict)
    stand_ins: list[str] = field(default_factory=list)
    rows: list[TrainedRow] = field(default_factory=list)


def rehearse(paper: str, *, params: Path, snakefile: Path, folder: Path, short: bool, cores: int) -> Rehearsed:
    """Rehearse a paper in a folder; what an interrupted rehearsal finished there is kept.

    Args:
        paper: folder of ``params/``.
        params: that folder.
        snakefile: of the project.
        folder: an empty or new folder, or that of an unfinished rehearsal of the same paper and form.
        short: the short form: not all rows, and no DVC.
        cores: jobs at once.

    Raises:
        RecapError: the folder is another's, or something failed; the sentence says what.
    """
    began = time.monotonic()
    params, snakefile = params.absolute(), snakefile.absolute()
    state = _open_folder(folder, {"paper": paper, "short": short})
    with chdir(folder), _site(state) as site:
        write_json(STATE, state)
        prepared = _prepared(paper, params, site.url, short)
        state["by_hand"] = {**state.get("by_hand", {}), **prepared.by_hand}
        workflow = Workflow(snakefile, prepared.configfile, prepared.config, cores, site.url)
        state.setdefault("planned", workflow.planned())
        write_json(STATE, state)
        workflow.run()
        workflow.run("--report", "report.html")
        left = workflow.planned()
        planned = Counter(state["planned"])
        return Rehearsed(
            paper=paper,
            folder=folder,
            planned=planned,
            run=planned - left,
            minutes=(time.monotonic() - began) / 60,
            by_hand=state["by_hand"],
            stand_ins=prepared.stand_ins,
            rows=trained_rows(prepared.plan),
        )
