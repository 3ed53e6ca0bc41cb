"""``recap statistics`` and ``recap report``: from scores to tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from recap.cli.arguments import Arguments, calls, chosen, paths, spec, typed
from recap.cli.claims import add_claims
from recap.cli.parser import Commands, command
from recap.cli.profile_report import add_docs, add_make
from recap.core.errors import ConfigError

if TYPE_CHECKING:
    from recap.settings.specs import ComparedTable


def add_statistics(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands,
        "statistics",
        _statistics,
        purpose="compute means, intervals and tests of one table",
        example="""
            recap statistics --table mine --spec spec.json --scores results/mine/scores --out statistics.json
        """,
    )
    parser.add_argument("--table", required=True, metavar="NAME", help="name of the table")
    spec(parser, "ComparedTable")
    paths(parser, "scores", out="the JSON that `recap report table` reads")
    paths(
        parser,
        required=False,
        runs="folder results/<profile>/runs, for columns that are no metrics",
        selection="what `recap select` wrote, for a table that chooses rows on validation",
    )


def _statistics(a: Arguments) -> None:
    settings: ComparedTable = typed(a, "ComparedTable")
    from recap.statistics.compare import compare_table

    compare_table(
        table=settings.table,
        name=a.table,
        seeds=settings.seeds,
        scores_root=a.scores,
        statistics_out=a.out,
        trainings={
            run: [a.runs / training for training in trainings]
            for run, trainings in (settings.trainings.items() if a.runs else ())
        },
        server={run: Path(folder) for run, folder in settings.server.items()},
        selection=a.selection,
    )


def add_select(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands,
        "select",
        calls("recap.statistics.compare:write_selections", "runs out", spec="SelectedRows"),
        purpose="choose rows of a table by their validation scores, and record the reason",
        example="recap select --spec spec.json --runs results/mine/runs --out selection.json",
    )
    spec(parser, "SelectedRows")
    paths(parser, runs="folder results/<profile>/runs", out="the record: candidates, scores, rule, what was chosen")


def add_report(commands: Commands) -> None:
    """Add the commands of this group."""
    _add_table(commands)
    _add_captions(commands)
    _add_figure(commands)
    _add_sweep(commands)
    _add_summary(commands)
    _add_curves(commands)
    add_claims(commands)
    add_make(commands)
    add_docs(commands)
    _add_show(commands)


def _add_table(commands: Commands) -> None:
    parser = command(
        commands,
        "table",
        _table,
        purpose="write a table: in full (tex, csv, html, md), and with one line per row (paper.tex, .csv, .md)",
        example="recap report table --spec table.json --statistics mine.json --out reports/tables",
    )
    spec(parser, "Table")
    paths(parser, "statistics", out="folder of the files")


def _table(a: Arguments) -> None:
    from recap.core.files.checksums import check
    from recap.core.files.json_files import read_json
    from recap.reporting.tables import write_table

    settings = typed(a, "Table")
    check(a.statistics)
    write_table(name=a.statistics.stem, table=settings, statistics=read_json(a.statistics), out=a.out)


def _add_captions(commands: Commands) -> None:
    parser = command(
        commands,
        "captions",
        _captions,
        purpose="draw sample captions and references, with their photos",
        example="""
            recap report captions --spec spec.json --statistics mine.json --corpus corpus.parquet \\
              --images photos.zip --scores results/mine/scores --out reports/figures
        """,
    )
    spec(parser, "ComparedTable")
    paths(parser, "statistics", "corpus", "scores", "images", out="folder of the figure and its text")
    parser.add_argument("--count", type=int, default=10, help="number of photos (10)")


def _captions(a: Arguments) -> None:
    settings: ComparedTable = typed(a, "ComparedTable")
    from recap.reporting.figures import write_samples

    write_samples(
        name=a.statistics.stem,
        table=settings.table,
        seeds=settings.seeds,
        corpus_path=a.corpus,
        image_roots=a.images,
        scores_root=a.scores,
        out=a.out,
        count=a.count,
    )


def _add_figure(commands: Commands) -> None:
    parser = command(
        commands,
        "figure",
        _figure,
        purpose="draw a figure of trained models or of captions, such as attention",
        example="""
            recap report figure --spec '{"kind": "attention", "count": 5}' --corpus corpus.parquet \\
              --vocabulary vocabulary.json --features features.h5 --images photos.zip \\
              --runs base run --labels Transformer Mine --out figures/mine
        """,
    )
    spec(parser, "TableFigure")
    begin = "begin of the files' paths: with figures/mine, attention.png becomes figures/mine_attention.png"
    paths(parser, "corpus", "vocabulary", out=begin)
    paths(parser, "features", "images", required=False)
    runs, texts = "run folders; kinds without models have none", "outside files that the figure's settings name"
    parser.add_argument("--runs", type=Path, nargs="*", default=[], metavar="PATH", help=runs)
    parser.add_argument("--labels", nargs="*", default=[], metavar="NAME", help="names of the runs, one each")
    parser.add_argument("--texts", type=Path, nargs="*", default=[], metavar="PATH", help=texts)
    parser.add_argument("--heading", default="", metavar="TEXT", help="text above the figure")


def _figure(a: Arguments) -> None:
    figure, runs, labels = typed(a, "TableFigure"), a.runs, a.labels
    if len(labels) != len(runs):
        raise ConfigError(f"{len(runs)} runs but {len(labels)} labels; give one label per run")
    if len(set(labels)) < len(labels):
        raise ConfigError(f"two runs have the same label ({', '.join(labels)}); give each its own")
    from recap.evaluation.figure import DrawnModels, write_figure

    files = chosen(a, "corpus vocabulary heading texts")
    named = dict(zip(labels, runs, strict=True))
    drawn = DrawnModels(named, features=a.features or [], image_roots=a.images or [], **files)
    write_figure(figure, drawn, a.out)


def _add_sweep(commands: Commands) -> None:
    parser = command(
        commands,
        "sweep",
        _sweep,
        purpose="plot the scores of several tables against one setting, with a CSV",
        example="recap report sweep --spec spec.json --statistics statistics --out f7.csv --figure f7.png",
    )
    spec(parser, "Figure")
    paths(parser, statistics="folder results/<profile>/statistics", out="the CSV", figure="the PNG")


def _sweep(a: Arguments) -> None:
    figure = typed(a, "Figure")
    from recap.reporting.sweep import write_sweep

    write_sweep(figure=figure, statistics=a.statistics, png=a.figure, out=a.out)


def _add_summary(commands: Commands) -> None:
    parser = command(
        commands,
        "summary",
        _summary,
        purpose="write the mean scores of all rows for `dvc metrics`",
        example="""
            recap report summary --spec '{"rows": {"table.row": ["path/of/run"]}}' --scores scores --out summary.json
        """,
    )
    spec(parser, "Summary")
    paths(parser, "scores", out="the JSON")


def _summary(a: Arguments) -> None:
    from recap.reporting.summary import write_summary

    write_summary(spec=typed(a, "Summary").model_dump(), scores=a.scores, out=a.out)


def _add_curves(commands: Commands) -> None:
    parser = command(
        commands,
        "curves",
        _curves,
        purpose="write the learning curves of all runs: a CSV, and a figure for `dvc plots`",
        example="""
            recap report curves --spec '{"runs": [{"label": "a", "seed": 1, "stage": "xe", "path": "path/of/run"}]}' \\
              --runs runs --out curves.csv --figure curves.png
        """,
    )
    spec(parser, "Curves")
    paths(parser, runs="folder results/<profile>/runs", out="the CSV", figure="the PNG")


def _curves(a: Arguments) -> None:
    from recap.reporting.curves import write_curves

    write_curves(spec=typed(a, "Curves").model_dump(), runs=a.runs, out=a.out, figure=a.figure)


def _add_show(commands: Commands) -> None:
    parser = command(
        commands, "show", _show, purpose="print finished reports", example="recap report show reports/demo"
    )
    parser.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="Markdown or text; a folder: its tables and sample captions"
    )


def _show(a: Arguments) -> None:
    for path in (file for each in a.files for file in (_tables(each) if each.is_dir() else [each])):
        if not path.exists():
            raise ConfigError(f"{path}: no such report; run the workflow first")
        print(path.read_text(encoding="utf-8"))


def _tables(folder: Path) -> list[Path]:
    """Return the tables in the folder of a profile's reports, each with the captions of its samples."""
    found = sorted(path for path in folder.glob("tables/*.md") if path.suffixes != [".paper", ".md"])
    captions = {path: folder / "figures" / f"{path.stem}_captions.md" for path in found}
    return [file for path in found for file in (path, captions[path]) if file.exists()]
