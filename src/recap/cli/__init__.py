"""The command line: commands parse, call one function and print."""

from __future__ import annotations

import shlex
import sys
import warnings
from pathlib import Path

from recap import __version__
from recap.cli.artifacts import add_artifacts
from recap.cli.caption import add_caption
from recap.cli.config import add_config
from recap.cli.data import add_data
from recap.cli.errors import one_sentence
from recap.cli.export import add_export
from recap.cli.features import add_features
from recap.cli.import_checkpoint import add_import_checkpoint
from recap.cli.language_model import add_pretrain_lm
from recap.cli.params import add_params
from recap.cli.parser import Parser, group
from recap.cli.plan import add_doctor, add_plan
from recap.cli.rehearse import add_rehearse
from recap.cli.report import add_report, add_select, add_statistics
from recap.cli.runs import add_runs, add_tables
from recap.cli.score import add_score
from recap.cli.scores import add_scores
from recap.cli.study import add_study
from recap.cli.track import add_track
from recap.cli.train import add_evaluate, add_train
from recap.core.log import FILE_ONLY, LEVELS, VARIABLE, configure, log
from recap.core.process import exit_with_workflow


def main(argv: list[str] | None = None) -> None:
    """Run one command; an error a user can act on becomes one sentence and exit status 2."""
    with one_sentence():
        # Pillow's warnings (of large pictures, of damaged EXIF data) name no file; what is refused is refused by name.
        warnings.filterwarnings("ignore", module=r"PIL\.")
        arguments = build_parser().parse_args(argv)
        configure(arguments.log_level, arguments.log_file)
        log.info(shlex.join(["recap", *(sys.argv[1:] if argv is None else argv)]), extra=FILE_ONLY)
        exit_with_workflow()
        arguments.function(arguments)


def build_parser() -> Parser:
    """Describe all commands."""
    parser = Parser(
        prog="recap",
        description="Reproduce image-captioning papers: from raw photos to result tables with p-values.",
        epilog="`recap COMMAND --help` says more. The whole workflow: `make demo`, or `snakemake --cores all`.",
    )
    parser.add_argument("--version", action="version", version=f"recap {__version__}")
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="lowest level of the messages (info)")
    parser.add_argument(
        "--log-file", type=Path, metavar="PATH", help=f"add messages with times to this file, too (or set {VARIABLE})"
    )
    parser.set_defaults(function=lambda _: parser.print_help())
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    add_plan(commands)
    add_doctor(commands)
    add_data(group(commands, "data", purpose="get outside files; prepare captions, vocabularies and subsets"))
    add_features(group(commands, "features", purpose="extract, import and inspect feature stores"))
    add_pretrain_lm(commands)
    add_train(commands)
    add_evaluate(commands)
    add_score(commands)
    add_caption(commands)
    add_import_checkpoint(commands)
    add_select(commands)
    add_statistics(commands)
    add_report(group(commands, "report", purpose="write tables, figures and pages of results"))
    add_study(group(commands, "study", purpose="run human studies: forms, responses, tables"))
    add_export(group(commands, "export", purpose="export results in other formats"))
    add_scores(group(commands, "scores", purpose="import scores that others computed"))
    add_artifacts(group(commands, "artifacts", purpose="push, pull, verify or remove results"))
    add_rehearse(commands)
    add_track(group(commands, "track", purpose="list finished runs in MLflow"))
    add_runs(group(commands, "runs", purpose="list, show and compare finished runs"))
    add_tables(group(commands, "tables", purpose="show finished tables"))
    add_params(group(commands, "params", purpose="list and show parameter files"))
    add_config(group(commands, "config", purpose="check parameter files and write their schemas"))
    return parser
