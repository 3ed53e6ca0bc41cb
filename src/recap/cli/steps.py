"""``recap run-step``: what only rules of the workflow run; these steps are on no help page."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from recap.cli.frame import Group, Option
from recap.cli.options import Corpus, Device, Images, Inputs, Threads, spec_of
from recap.core import checksums
from recap.core.process import claim

STEPS = Group("run-step", "")

Files = Annotated[Sequence[Path], Option(count="*")]


@STEPS.command()
def subset(*, name: str, seed: int, spec: Annotated[Any, spec_of("Subset")], corpus: Corpus, out: Path) -> None:
    """Sample a subset of the training captions."""
    from recap.data.subsets.subsample import draw_subset

    draw_subset(**spec.model_dump(), corpus=corpus, name=name, seed=seed, out=out)


@STEPS.command()
def used(
    *, corpus: Sequence[Path], subsets: Files = (), parts: Annotated[Sequence[str], Option(count="*")] = (), out: Path
) -> None:
    """List the images of some subsets; only these need features."""
    from recap.data.subsets.used import write_used

    write_used(corpora=corpus, subsets=subsets, parts=parts, out=out)


@STEPS.command()
def note(*, spec: Annotated[Any, spec_of("Features")], code: str, files: Files = (), out: Path) -> None:
    """Record the settings that determine a feature store."""
    from recap.features.attributes import write_note

    write_note(spec=spec, code=code, files=files, out=out)


@STEPS.command()
def pretrain(
    *,
    spec: Annotated[Any, spec_of("GridFeatures")],
    boxes: Path,
    images: Images,
    device: Device = "auto",
    threads: Threads = 2,
    out: Path,
) -> None:
    """Train a backbone on the boxes of training pictures."""
    claim(device)
    from recap.features.pretrain import pretrain_backbone

    pretrain_backbone(spec=spec, boxes=boxes, images=images, device=device, threads=threads, out=out)
    checksums.record(out)


@STEPS.command()
def tune(
    *,
    spec: Annotated[Any, spec_of("GridFeatures")],
    corpus: Corpus,
    images: Images,
    inputs: Inputs,
    device: Device = "auto",
    threads: Threads = 2,
    out: Path,
) -> None:
    """Tune a backbone on the captions of training pictures."""
    claim(device)
    from recap.features.tune import tune_backbone

    files: dict[str, Any] = {"corpus": corpus, "images": images, "inputs": inputs, "out": out}
    tune_backbone(spec=spec, device=device, threads=threads, **files)
    checksums.record(out)


@STEPS.command()
def select(*, spec: Annotated[Any, spec_of("SelectedRows")], runs: Path, out: Path) -> None:
    """Choose rows of a table by their validation scores, and record the reason."""
    from recap.statistics.compare import write_selections

    write_selections(spec=spec, runs=runs, out=out)


@STEPS.command()
def statistics(
    *,
    table: str,
    spec: Annotated[Any, spec_of("ComparedTable")],
    scores: Path,
    runs: Path,
    selection: Path | None = None,
    out: Path,
) -> None:
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


@STEPS.command()
def table(*, spec: Annotated[Any, spec_of("Table")], statistics: Path, out: Path) -> None:
    """Write a table: in full (tex, csv, html, md), and with one line per row (paper.tex, .csv, .md)."""
    from recap.core.documents import read_json
    from recap.reporting.tables import write_table

    checksums.check(statistics)
    write_table(name=statistics.stem, table=spec, statistics=read_json(statistics), out=out)


@STEPS.command()
def samples(
    *,
    spec: Annotated[Any, spec_of("ComparedTable")],
    statistics: Path,
    corpus: Corpus,
    images: Images,
    scores: Path,
    out: Path,
    count: int,
) -> None:
    """Draw sample captions and references, with their photos."""
    from recap.reporting.figures import write_samples

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


@STEPS.command()
def sweep(*, spec: Annotated[Any, spec_of("Figure")], statistics: Path, out: Path, figure: Path) -> None:
    """Plot the scores of several tables against one setting, with a CSV."""
    from recap.reporting.sweep import write_sweep

    write_sweep(figure=spec, statistics=statistics, png=figure, out=out)


@STEPS.command()
def summary(*, spec: Annotated[Any, spec_of("Summary")], scores: Path, out: Path) -> None:
    """Write the mean scores of all rows for `dvc metrics`."""
    from recap.reporting.summary import write_summary

    write_summary(spec=spec.model_dump(), scores=scores, out=out)


@STEPS.command()
def curves(*, spec: Annotated[Any, spec_of("Curves")], runs: Path, out: Path, figure: Path) -> None:
    """Write the learning curves of all runs: a CSV, and a figure for `dvc plots`."""
    from recap.reporting.curves import write_curves

    write_curves(spec=spec.model_dump(), runs=runs, out=out, figure=figure)


@STEPS.command()
def track_init(*, store: Path) -> None:
    """Prepare the MLflow store."""
    from recap.share.tracking_store import init_store

    init_store(store=store)


@STEPS.command()
def publish(*, profile: str, results: Path, reports: Path, store: Path, out: Path) -> None:
    """List all runs and tables of a profile in MLflow."""
    from recap.share import tracking_store

    tracking_store.publish(profile=profile, results=results, reports=reports, store=store, out=out)
