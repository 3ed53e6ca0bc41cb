"""``recap run-step``: what only rules of the workflow run; these steps are on no help page."""

from collections.abc import Sequence
from functools import partial
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

from recap.cli.frame import Command, Group, Option
from recap.cli.options import Device
from recap.core import checksums
from recap.core.process import claim

STEPS = Group("run-step", "")

Paths = Sequence[Path]
SomePaths = Annotated[Sequence[Path], Option(count="*")]
SomeWords = Annotated[Sequence[str], Option(count="*")]


def _step(
    step: str, target: str, spec: str | None = None, /, *, plain: bool = False, trains: bool = False, **kinds: Any
) -> None:
    """Add a step that calls ``module:function`` with options of these names and types.

    One that is ``plain`` gets the settings as a dictionary; one that ``trains`` takes a GPU, and its file gets a hash.
    """
    kinds = ({"spec": Any} if spec else {}) | kinds | ({"device": Device, "threads": int} if trains else {})
    defaults = {"files": (), "device": "auto", "threads": 2}
    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=defaults.get(name, Parameter.empty))
        for name, kind in kinds.items()
    ]
    function = partial(_call, target, plain, trains)
    function.__doc__ = f"Call {target}."
    function.__signature__ = Signature(options)  # type: ignore[attr-defined]
    STEPS.commands.append(Command(function, step, spec=spec))


def _call(target: str, plain: bool, trains: bool, **values: Any) -> None:
    from recap.settings.kinds import resolve

    if trains:
        claim(values["device"])
    if plain:
        values["spec"] = values["spec"].model_dump()
    resolve(target)(**values)
    if trains:
        checksums.record(values["out"])


_step("note", "recap.features.attributes:write_note", "Features", code=str, files=SomePaths, out=Path)
_step(
    "pretrain",
    "recap.features.training:pretrain",
    "GridFeatures",
    trains=True,
    boxes=Path,
    images=Paths,
    out=Path,
)
_step(
    "tune",
    "recap.features.training:tune",
    "GridFeatures",
    trains=True,
    corpus=Path,
    images=Paths,
    inputs=Path,
    out=Path,
)
_step("select", "recap.statistics.compare:write_selections", "SelectedRows", runs=Path, out=Path)
_step("summary", "recap.report.figures:write_summary", "Summary", plain=True, scores=Path, out=Path)
_step("curves", "recap.report.figures:write_curves", "Curves", plain=True, runs=Path, out=Path, figure=Path)
_step("track-init", "recap.share.tracking_store:init_store", store=Path)
_step("publish", "recap.share.tracking_store:publish", profile=str, results=Path, reports=Path, store=Path, out=Path)


@STEPS.command(spec="Subset")
def subset(*, name: str, seed: int, spec: Any, corpus: Path, out: Path) -> None:
    """Sample a subset of the training captions."""
    from recap.data.subsets import draw_subset

    draw_subset(**spec.model_dump(), corpus=corpus, name=name, seed=seed, out=out)


@STEPS.command()
def used(*, corpus: Paths, subsets: SomePaths = (), parts: SomeWords = (), out: Path) -> None:
    """List the images of some subsets; only these need features."""
    from recap.data.subsets import write_used

    write_used(corpora=corpus, subsets=subsets, parts=parts, out=out)


@STEPS.command(spec="ComparedTable")
def statistics(*, table: str, spec: Any, scores: Path, runs: Path, selection: Path | None = None, out: Path) -> None:
    """Compute means, intervals and tests of one table."""
    from recap.statistics.compare import compare_table

    compare_table(
        table=spec.table,
        name=table,
        seeds=spec.seeds,
        scores_root=scores,
        statistics_out=out,
        trainings={run: [runs / each for each in trainings] for run, trainings in spec.trainings.items()},
        server={run: Path(folder) for run, folder in spec.server.items()},
        selection=selection,
    )


@STEPS.command(spec="Table")
def table(*, spec: Any, statistics: Path, out: Path) -> None:
    """Write a table: in full (tex, csv, html, md), and with one line per row (paper.tex, .csv, .html, .md)."""
    from recap.core.documents import read_json
    from recap.tables.formats import write_table

    checksums.check(statistics)
    write_table(name=statistics.stem, table=spec, statistics=read_json(statistics), out=out)


@STEPS.command(spec="ComparedTable")
def samples(*, spec: Any, statistics: Path, corpus: Path, images: Paths, scores: Path, out: Path, count: int) -> None:
    """Draw sample captions and references, with their photos."""
    from recap.tables.samples import write_samples

    write_samples(
        name=statistics.stem,
        table=spec.table,
        seeds=spec.seeds,
        corpus_path=corpus,
        image_roots=images,
        scores_root=scores,
        out=out,
        count=count,
    )


@STEPS.command(spec="Figure")
def sweep(*, spec: Any, statistics: Path, out: Path, figure: Path) -> None:
    """Plot the scores of several tables against one setting, with a CSV."""
    from recap.report.figures import write_sweep

    write_sweep(figure=spec, statistics=statistics, png=figure, out=out)
