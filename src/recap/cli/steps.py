"""``recap run-step``: what only rules of the workflow run; it is on no help page."""

import argparse
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_origin

from recap.cli.commands import Parser, checked, command
from recap.cli.options import mapping
from recap.core import checksums
from recap.core.process import acquire_gpus

TARGETS = (
    "recap.cli.steps:claims",
    "recap.cli.steps:table",
    "recap.data.subsets:draw_subset",
    "recap.data.subsets:write_used",
    "recap.features.extraction:write_note",
    "recap.features.training:pretrain",
    "recap.report.figures:write_curves",
    "recap.report.figures:write_summary",
    "recap.report.figures:write_sweep",
    "recap.share.tracking_store:init_store",
    "recap.share.tracking_store:print_run_lists",
    "recap.share.tracking_store:publish",
    "recap.statistics.compare:compare_table",
    "recap.statistics.compare:write_selections",
    "recap.tables.samples:write_samples",
)


@command(hidden=True)
def run_step(
    target: Annotated[str, "the function", {"choices": TARGETS}],
    words: Annotated[Sequence[str], "its arguments as options", {"nargs": argparse.REMAINDER}],
) -> None:
    """Call a function; each option is an argument, and --spec an object:
    the argument `spec`, or several by name."""
    from recap.settings.kinds import resolve
    from recap.settings.params import validate

    function = resolve(target)
    parameters = inspect.signature(function, eval_str=True).parameters
    parser = Parser(prog=f"recap run-step {target}")
    parser.add_argument("--spec", type=mapping)
    for name in parameters.keys() - {"spec"}:
        several = get_origin(parameters[name].annotation) is Sequence
        parser.add_argument(f"--{name.replace('_', '-')}", nargs="*" if several else None)
    options = {
        name: value for name, value in vars(parser.parse_args(words)).items() if value is not None
    }
    if "spec" not in parameters:
        options |= options.pop("spec", {})
    values = {
        name: validate(parameters[name].annotation, value, f"--{name}")
        for name, value in options.items()
    }
    if "device" in values:
        acquire_gpus(values["device"])
    function(**values)
    if "device" in values:
        checksums.record(values["out"])


def claims(*, spec: dict[str, Any], scores: Path, out: Path) -> None:
    """Write the verdicts on a paper's claims by the finished runs of one profile."""
    from recap.statistics.claims import judge_claims
    from recap.tables.claims import write_claims

    judged = checked(spec, "specs:ClaimsSpec")
    checksums.record(*write_claims(judge_claims(judged, scores), judged.scale, out))


def table(*, spec: dict[str, Any], statistics: Path, out: Path) -> None:
    """Write a table: in full (tex, csv, html, md), and a line per row (paper.tex, ...)."""
    from recap.core.documents import read_json
    from recap.statistics.results import TableResult
    from recap.tables.formats import write_table

    checksums.check(statistics)
    paths = write_table(
        name=statistics.stem,
        table=checked(spec, "tables:Table"),
        statistics=read_json(statistics, TableResult),
        out=out,
    )
    checksums.record(*paths)
