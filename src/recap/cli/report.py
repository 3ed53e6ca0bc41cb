"""``recap statistics``, ``recap report`` and ``recap track``: from scores to tables, figures and MLflow."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from recap.cli.arguments import Arguments, paths, spec
from recap.core.errors import ConfigError


def _table_of(spec: dict[str, Any]) -> Any:
    from recap.core.config import Table
    from recap.core.params import validate

    return validate(Table, spec.get("table", spec), "table")


def add_statistics(parser: argparse.ArgumentParser) -> None:
    """Add the commands of this group."""

    def statistics(a: Arguments) -> None:
        from recap.statistics.compare import compare_table

        compare_table(
            table=_table_of(a.spec), name=a.table, seeds=a.spec["seeds"], scores_root=a.scores, statistics_out=a.out
        )

    parser.add_argument("--table", required=True)
    spec(parser)
    paths(parser, "scores", "out")
    parser.set_defaults(function=statistics)


def add_report(commands: Any) -> None:
    """Add the commands of this group."""

    def table(a: Arguments) -> None:
        from recap.core.atomic import read_json
        from recap.core.checksums import check
        from recap.reporting.tables import write_table

        check(a.statistics)
        write_table(name=a.statistics.stem, table=_table_of(a.spec), statistics=read_json(a.statistics), out=a.out)

    def captions(a: Arguments) -> None:
        from recap.reporting.figures import write_samples

        write_samples(
            name=a.statistics.stem,
            table=_table_of(a.spec),
            seeds=a.spec["seeds"],
            corpus_path=a.corpus,
            image_roots=a.images,
            scores_root=a.scores,
            out=a.out,
            count=a.count,
        )

    def attention(a: Arguments) -> None:
        from recap.core.seeding import generator
        from recap.data.corpus import Corpus
        from recap.reporting.attention import write_attention
        from recap.training.attention import looks_of

        if len(a.labels) != len(a.runs):
            raise ConfigError(f"{len(a.runs)} runs but {len(a.labels)} labels; give one label a run")
        corpus = Corpus.read(a.corpus)
        ids = sorted(corpus.captions("test"))
        drawn = generator(0, "attention").choice(len(ids), size=min(a.count, len(ids)), replace=False).tolist()
        images = a.image_ids or [ids[index] for index in drawn]
        inputs = {"features": a.features, "vocabulary": a.vocabulary, "image_ids": images}
        each = [
            looks_of(run=run, label=label, **inputs, beam=a.beam, max_length=20)
            for run, label in zip(a.runs, a.labels, strict=True)
        ]
        looks = {image: [model[image] for model in each] for image in images}
        write_attention(heading=a.heading, looks=looks, files=corpus.files(), image_roots=a.images, out=a.out)

    def summary(a: Arguments) -> None:
        from recap.reporting.summary import write_summary

        write_summary(spec=a.spec, scores=a.scores, out=a.out)

    def curves(a: Arguments) -> None:
        from recap.reporting.summary import write_curves

        write_curves(spec=a.spec, runs=a.runs, out=a.out)

    def show(a: Arguments) -> None:
        for path in a.files:
            if not path.exists():
                raise ConfigError(f"{path}: no such report; run the workflow first")
            print(path.read_text(encoding="utf-8"))

    parser = commands.add_parser("table", help="statistics -> tex, csv, md")
    spec(parser)
    paths(parser, "statistics", "out")
    parser.set_defaults(function=table)
    parser = commands.add_parser("captions", help="contact sheet of captions beside references")
    spec(parser)
    paths(parser, "statistics", "corpus", "scores", "out")
    parser.add_argument("--images", type=Path, nargs="+", required=True)
    parser.add_argument("--count", type=int, default=10)
    parser.set_defaults(function=captions)
    parser = commands.add_parser("attention", help="where models look along the words of their captions")
    paths(parser, "corpus", "vocabulary", "features", "out")
    parser.add_argument("--images", type=Path, nargs="+", required=True, help="folders or zips with the photos")
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="run folders")
    parser.add_argument("--labels", nargs="+", required=True, help="one a run")
    parser.add_argument("--heading", default="", help="what stands above the figure")
    parser.add_argument("--image-ids", type=int, nargs="+", help="default: test photos drawn by chance")
    parser.add_argument("--count", type=int, default=3)
    parser.add_argument("--beam", type=int, default=3)
    parser.set_defaults(function=attention)
    parser = commands.add_parser("summary", help="mean scores of all rows, for `dvc metrics`")
    spec(parser)
    paths(parser, "scores", "out")
    parser.set_defaults(function=summary)
    parser = commands.add_parser("curves", help="learning curves of all runs, for `dvc plots`")
    spec(parser)
    paths(parser, "runs", "out")
    parser.set_defaults(function=curves)
    parser = commands.add_parser("show", help="print finished reports")
    parser.add_argument("files", type=Path, nargs="+")
    parser.set_defaults(function=show)


def add_track(commands: Any) -> None:
    """Add the commands of this group."""

    def init(a: Arguments) -> None:
        from recap.training.tracking import init_store

        init_store(a.store)

    def publish(a: Arguments) -> None:
        from recap.training.tracking import publish as run

        run(profile=a.profile, results=a.results, store=a.store, out=a.out)

    parser = commands.add_parser("init", help="prepare the MLflow store")
    paths(parser, "store")
    parser.set_defaults(function=init)
    parser = commands.add_parser("publish", help="bring all runs of a profile into MLflow")
    parser.add_argument("--profile", required=True)
    paths(parser, "results", "store", "out")
    parser.set_defaults(function=publish)
