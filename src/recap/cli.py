"""The command line: parse, call one function, print. Science and files live in the rooms."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from recap.core.errors import ConfigError, RecapError

Arguments = argparse.Namespace


def main(argv: list[str] | None = None) -> None:
    """Run one command; an error a user can act on becomes one sentence and exit status 2."""
    arguments = build_parser().parse_args(argv)
    try:
        arguments.function(arguments)
    except RecapError as error:
        print(f"recap: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def mapping(text: str) -> dict[str, Any]:
    """Parse a spec: a JSON object on the command line."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("expected a JSON object")
    return value


def build_parser() -> argparse.ArgumentParser:
    """Describe all commands."""
    parser = argparse.ArgumentParser(prog="recap", description="Reproduce image-captioning papers.")
    groups = parser.add_subparsers(required=True, metavar="COMMAND")
    _data(groups.add_parser("data", help="captions, vocabularies, subsets").add_subparsers(required=True))
    _features(groups.add_parser("features", help="feature stores").add_subparsers(required=True))
    _train(groups.add_parser("train", help="train one stage of one run"))
    _evaluate(groups.add_parser("evaluate", help="decode a split and score it"))
    _statistics(groups.add_parser("statistics", help="means, intervals and tests of one table"))
    _report(groups.add_parser("report", help="tables and figures").add_subparsers(required=True))
    _track(groups.add_parser("track", help="MLflow").add_subparsers(required=True))
    _config(groups.add_parser("config", help="check parameter files").add_subparsers(required=True))
    return parser


def _chosen(arguments: Arguments, names: str) -> dict[str, Any]:
    """Return the named arguments as keywords."""
    return {name: getattr(arguments, name) for name in names.split()}


def _paths(parser: argparse.ArgumentParser, *names: str) -> None:
    for name in names:
        parser.add_argument(f"--{name}", type=Path, required=True)


def _spec(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--spec", type=mapping, required=True, help="settings as a JSON object")


def _data(commands: Any) -> None:
    def corpus(a: Arguments) -> None:
        from recap.data.corpus import build_corpus

        build_corpus(name=a.name, spec=a.spec, inputs=a.inputs, out=a.out)

    def vocabulary(a: Arguments) -> None:
        from recap.data.vocabulary import build_vocabulary

        built = build_vocabulary(corpus=a.corpus, rule=a.spec, out=a.out)
        print(f"{a.out}: {len(built.words)} words and <unk>")

    def subset(a: Arguments) -> None:
        from recap.core.config import Subset
        from recap.core.params import validate
        from recap.data.subsample import draw_subset

        rule: Subset = validate(Subset, a.spec, f"subsets/{a.name}.yaml")
        draw_subset(corpus=a.corpus, name=a.name, fraction=rule.fraction, unit=rule.unit, seed=a.seed, out=a.out)

    parser = commands.add_parser("corpus", help="any data set -> corpus.parquet")
    parser.add_argument("--name", required=True)
    _spec(parser)
    _paths(parser, "inputs", "out")
    parser.set_defaults(function=corpus)
    parser = commands.add_parser("vocabulary", help="corpus -> vocabulary.json")
    _spec(parser)
    _paths(parser, "corpus", "out")
    parser.set_defaults(function=vocabulary)
    parser = commands.add_parser("subset", help="draw training captions")
    parser.add_argument("--name", required=True)
    parser.add_argument("--seed", type=int, required=True)
    _spec(parser)
    _paths(parser, "corpus", "out")
    parser.set_defaults(function=subset)


def _features(commands: Any) -> None:
    def extract(a: Arguments) -> None:
        from recap.core.config import GridFeatures
        from recap.core.params import validate
        from recap.features.grid import extract_grid

        spec: GridFeatures = validate(GridFeatures, a.spec, "features")
        extract_grid(spec=spec, **_chosen(a, "corpus images inputs trained device threads shards out"))

    def pretrain(a: Arguments) -> None:
        from recap.core.config import GridFeatures
        from recap.core.params import validate
        from recap.features.pretrain import pretrain_backbone

        spec: GridFeatures = validate(GridFeatures, a.spec, "features")
        pretrain_backbone(spec=spec, **_chosen(a, "boxes images device threads out"))

    def info(a: Arguments) -> None:
        from recap.features.info import info as describe

        print(describe(a.file))

    def pictures(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--images", type=Path, nargs="+", required=True, help="folders or zips with the pictures")
        parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
        parser.add_argument("--threads", type=int, default=2)

    parser = commands.add_parser("extract", help="pictures -> feature store")
    _spec(parser)
    _paths(parser, "corpus", "inputs", "shards", "out")
    parser.add_argument("--trained", type=Path, help="what `pretrain` wrote, for weights 'boxes'")
    pictures(parser)
    parser.set_defaults(function=extract)
    parser = commands.add_parser("pretrain", help="boxes of training pictures -> weights of a backbone")
    _spec(parser)
    _paths(parser, "boxes", "out")
    pictures(parser)
    parser.set_defaults(function=pretrain)
    parser = commands.add_parser("info", help="say what is in a feature store, and verify it")
    parser.add_argument("file", type=Path)
    parser.set_defaults(function=info)


def _train(parser: argparse.ArgumentParser) -> None:
    def train(a: Arguments) -> None:
        from recap.training.job import train as run

        run(**_chosen(a, "stage spec corpus vocabulary subset features init state out"))

    parser.add_argument("--stage", choices=["xe", "scst"], required=True)
    _spec(parser)
    _paths(parser, "corpus", "vocabulary", "subset", "features", "state", "out")
    parser.add_argument("--init", type=Path, help="run folder whose weights are the start")
    parser.set_defaults(function=train)


def _evaluate(parser: argparse.ArgumentParser) -> None:
    def evaluate(a: Arguments) -> None:
        from recap.training.evaluation import evaluate as run

        run(**_chosen(a, "spec corpus vocabulary features model out"))

    _spec(parser)
    _paths(parser, "corpus", "vocabulary", "features", "model", "out")
    parser.set_defaults(function=evaluate)


def _table_of(spec: dict[str, Any]) -> Any:
    from recap.core.config import Table
    from recap.core.params import validate

    return validate(Table, spec.get("table", spec), "table")


def _statistics(parser: argparse.ArgumentParser) -> None:
    def statistics(a: Arguments) -> None:
        from recap.statistics.compare import compare_table

        compare_table(
            table=_table_of(a.spec), name=a.table, seeds=a.spec["seeds"], scores_root=a.scores, statistics_out=a.out
        )

    parser.add_argument("--table", required=True)
    _spec(parser)
    _paths(parser, "scores", "out")
    parser.set_defaults(function=statistics)


def _report(commands: Any) -> None:
    def table(a: Arguments) -> None:
        from recap.core.atomic import read_json
        from recap.reporting.tables import write_table

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
    _spec(parser)
    _paths(parser, "statistics", "out")
    parser.set_defaults(function=table)
    parser = commands.add_parser("captions", help="contact sheet of captions beside references")
    _spec(parser)
    _paths(parser, "statistics", "corpus", "scores", "out")
    parser.add_argument("--images", type=Path, nargs="+", required=True)
    parser.add_argument("--count", type=int, default=10)
    parser.set_defaults(function=captions)
    parser = commands.add_parser("summary", help="mean scores of all rows, for `dvc metrics`")
    _spec(parser)
    _paths(parser, "scores", "out")
    parser.set_defaults(function=summary)
    parser = commands.add_parser("curves", help="learning curves of all runs, for `dvc plots`")
    _spec(parser)
    _paths(parser, "runs", "out")
    parser.set_defaults(function=curves)
    parser = commands.add_parser("show", help="print finished reports")
    parser.add_argument("files", type=Path, nargs="+")
    parser.set_defaults(function=show)


def _track(commands: Any) -> None:
    def init(a: Arguments) -> None:
        from recap.training.tracking import init_store

        init_store(a.store)

    def publish(a: Arguments) -> None:
        from recap.training.tracking import publish as run

        run(profile=a.profile, results=a.results, store=a.store, out=a.out)

    parser = commands.add_parser("init", help="prepare the MLflow store")
    _paths(parser, "store")
    parser.set_defaults(function=init)
    parser = commands.add_parser("publish", help="bring all runs of a profile into MLflow")
    parser.add_argument("--profile", required=True)
    _paths(parser, "results", "store", "out")
    parser.set_defaults(function=publish)


def _config(commands: Any) -> None:
    def check(a: Arguments) -> None:
        from recap.core.grid import Grid
        from recap.core.params import load_profile, read_mapping

        grid = Grid(load_profile(read_mapping(a.profile), str(a.profile)), a.params)
        print(f"{a.profile}: {len(grid.tables)} tables, {len(grid.scored())} scored runs")

    def schema(a: Arguments) -> None:
        from recap.core.schema import write_schemas

        for path in write_schemas(a.out):
            print(path)

    parser = commands.add_parser("check", help="validate a profile and everything it names")
    parser.add_argument("profile", type=Path)
    parser.add_argument("--params", type=Path, default=Path("params"))
    parser.set_defaults(function=check)
    parser = commands.add_parser("schema", help="write the JSON schemas of the parameter files")
    _paths(parser, "out")
    parser.set_defaults(function=schema)
