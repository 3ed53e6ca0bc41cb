"""``recap statistics``, ``recap report`` and ``recap track``: from scores to tables, figures and MLflow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recap.cli.arguments import Arguments, checked, paths, spec
from recap.cli.parser import Commands, Parser, command
from recap.core.errors import ConfigError


def _table(values: dict[str, Any]) -> Any:
    from recap.core.config import Table
    from recap.core.params import validate

    return validate(Table, values, "table")


def add_statistics(commands: Commands) -> None:
    """Add the command."""

    def statistics(a: Arguments) -> None:
        settings = checked(a, "ComparedTable")
        from recap.statistics.compare import compare_table

        compare_table(
            table=_table(settings["table"]),
            name=a.table,
            seeds=settings["seeds"],
            scores_root=a.scores,
            statistics_out=a.out,
        )

    parser = command(
        commands,
        "statistics",
        purpose="means, intervals and tests of one table",
        example="""
            recap statistics --table mine --spec spec.json --scores results/mine/scores --out statistics.json
        """,
    )
    parser.add_argument("--table", required=True, metavar="NAME", help="name of the table")
    spec(parser, "ComparedTable")
    paths(parser, "scores", out="the JSON that `recap report table` reads")
    parser.set_defaults(function=statistics)


def add_report(commands: Commands) -> None:
    """Add the commands of this group."""

    def table(a: Arguments) -> None:
        from recap.core.files.atomic import read_json
        from recap.core.files.checksums import check
        from recap.reporting.tables import write_table

        settings = _table(checked(a, "Table"))
        check(a.statistics)
        write_table(name=a.statistics.stem, table=settings, statistics=read_json(a.statistics), out=a.out)

    def captions(a: Arguments) -> None:
        settings = checked(a, "ComparedTable")
        from recap.reporting.figures import write_samples

        write_samples(
            name=a.statistics.stem,
            table=_table(settings["table"]),
            seeds=settings["seeds"],
            corpus_path=a.corpus,
            image_roots=a.images,
            scores_root=a.scores,
            out=a.out,
            count=a.count,
        )

    def attention(a: Arguments) -> None:
        from recap.core.seeding import generator
        from recap.data.corpus.corpus import Corpus
        from recap.evaluation.attention import caption_with_attention
        from recap.reporting.attention import write_attention

        if len(a.labels) != len(a.runs):
            raise ConfigError(f"{len(a.runs)} runs but {len(a.labels)} labels; give one label a run")
        corpus = Corpus.read(a.corpus)
        ids = sorted(corpus.captions("test"))
        drawn = generator(0, "attention").choice(len(ids), size=min(a.count, len(ids)), replace=False).tolist()
        images = a.image_ids or [ids[index] for index in drawn]
        inputs = {"features": a.features, "vocabulary": a.vocabulary, "image_ids": images}
        each = [
            caption_with_attention(run=run, label=label, **inputs, beam=a.beam, max_length=20)
            for run, label in zip(a.runs, a.labels, strict=True)
        ]
        looks = {image: [model[image] for model in each] for image in images}
        write_attention(heading=a.heading, looks=looks, files=corpus.files(), image_roots=a.images, out=a.out)

    def summary(a: Arguments) -> None:
        from recap.reporting.summary import write_summary

        write_summary(spec=checked(a, "Summary"), scores=a.scores, out=a.out)

    def curves(a: Arguments) -> None:
        from recap.reporting.curves import write_curves

        write_curves(spec=checked(a, "Curves"), runs=a.runs, out=a.out, figure=a.figure)

    def show(a: Arguments) -> None:
        for path in a.files:
            if not path.exists():
                raise ConfigError(f"{path}: no such report; run the workflow first")
            print(path.read_text(encoding="utf-8"))

    parser = command(
        commands,
        "table",
        purpose="statistics -> tex, csv, html, md",
        example="""recap report table --spec table.json --statistics mine.json --out reports/tables""",
    )
    spec(parser, "Table")
    paths(parser, "statistics", out="folder of the four files")
    parser.set_defaults(function=table)
    parser = command(
        commands,
        "captions",
        purpose="contact sheet of captions beside references",
        example="""
            recap report captions --spec spec.json --statistics mine.json --corpus corpus.parquet \\
              --images photos.zip --scores results/mine/scores --out reports/figures
        """,
    )
    spec(parser, "ComparedTable")
    paths(parser, "statistics", "corpus", "scores", out="folder of the figure and its text")
    _add_images(parser)
    parser.add_argument("--count", type=int, default=10, help="photos (10)")
    parser.set_defaults(function=captions)
    parser = command(
        commands,
        "attention",
        purpose="where models look along the words of their captions",
        example="""
            recap report attention --corpus corpus.parquet --vocabulary vocabulary.json --features features.h5 \\
              --images photos.zip --runs run --labels ZoDIAC --out attention.png
        """,
    )
    paths(parser, "corpus", "vocabulary", "features", out="the figure")
    _add_images(parser)
    parser.add_argument("--runs", type=Path, nargs="+", required=True, metavar="PATH", help="run folders")
    parser.add_argument("--labels", nargs="+", required=True, metavar="NAME", help="one a run")
    parser.add_argument("--heading", default="", metavar="TEXT", help="what stands above the figure")
    parser.add_argument(
        "--image-ids", type=int, nargs="+", metavar="ID", help="photos (default: test photos drawn by chance)"
    )
    parser.add_argument("--count", type=int, default=3, help="photos that are drawn by chance (3)")
    parser.add_argument("--beam", type=int, default=3, help="beam of the captions (3)")
    parser.set_defaults(function=attention)
    parser = command(
        commands,
        "summary",
        purpose="mean scores of all rows, for `dvc metrics`",
        example="""
            recap report summary --spec '{"rows": {"table.row": ["path/of/run"]}}' --scores scores --out summary.json
        """,
    )
    spec(parser, "Summary")
    paths(parser, "scores", out="the JSON")
    parser.set_defaults(function=summary)
    parser = command(
        commands,
        "curves",
        purpose="learning curves of all runs: a CSV, and a figure for `dvc plots`",
        example="""
            recap report curves --spec '{"runs": [{"label": "a", "seed": 1, "stage": "xe", "path": "path/of/run"}]}' \\
              --runs runs --out curves.csv --figure curves.png
        """,
    )
    spec(parser, "Curves")
    paths(parser, runs="folder results/<profile>/runs", out="the CSV", figure="the PNG")
    parser.set_defaults(function=curves)
    parser = command(
        commands, "show", purpose="print finished reports", example="recap report show reports/demo/tables/demo.md"
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="Markdown or text")
    parser.set_defaults(function=show)


def _add_images(parser: Parser) -> None:
    parser.add_argument(
        "--images", type=Path, nargs="+", required=True, metavar="PATH", help="folders or zips with the photos"
    )


def add_track(commands: Commands) -> None:
    """Add the commands of this group."""

    def init(a: Arguments) -> None:
        from recap.tracking.store import init_store

        init_store(a.store)

    def publish(a: Arguments) -> None:
        from recap.tracking.publish import publish as run

        run(profile=a.profile, results=a.results, reports=a.reports, store=a.store, out=a.out)

    def addresses(a: Arguments) -> None:
        from recap.tracking.views import addresses as found

        for experiment, address in found(store=a.store, port=a.port).items():
            print(f"runs on {experiment}: {address}")

    parser = command(
        commands, "init", purpose="prepare the MLflow store", example="recap track init --store mlflow/mlflow.db"
    )
    paths(parser, store="SQLite file of the store")
    parser.set_defaults(function=init)
    parser = command(
        commands,
        "publish",
        purpose="bring all runs and tables of a profile into MLflow",
        example="""
            recap track publish --profile demo --results results/demo --reports reports/demo \\
              --store mlflow/mlflow.db --out mlflow/demo.published.json
        """,
    )
    parser.add_argument("--profile", required=True, metavar="NAME", help="name of the profile")
    paths(parser, "results", reports="folder reports/<profile>", store="SQLite file of the store")
    paths(parser, out="JSON with what was published")
    parser.set_defaults(function=publish)
    parser = command(
        commands,
        "addresses",
        purpose="where a browser finds the runs while `make ui` serves the store",
        example="recap track addresses --store mlflow/mlflow.db",
    )
    paths(parser, store="SQLite file of the store")
    parser.add_argument("--port", type=int, default=5000, help="port of the server (default: 5000)")
    parser.set_defaults(function=addresses)
