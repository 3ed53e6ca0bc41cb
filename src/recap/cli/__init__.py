"""The command line: commands parse, call one function and print."""

import shlex
import sys
import warnings
from pathlib import Path

from recap import __version__
from recap.cli import caption, data, features, plan, results, steps, study, train
from recap.cli.commands import Parser
from recap.cli.errors import one_sentence
from recap.core.log import FILE_ONLY, LEVELS, VARIABLE, configure, log
from recap.core.process import exit_without_workflow

COMMANDS = (
    plan.plan,
    plan.measure,
    plan.doctor,
    data.DATA,
    features.FEATURES,
    train.pretrain_lm,
    train.train,
    train.evaluate,
    caption.score,
    caption.caption,
    train.import_checkpoint,
    results.REPORT,
    study.STUDY,
    caption.EXPORT,
    caption.SCORES,
    results.ARTIFACTS,
    plan.rehearse,
    results.RUNS,
    results.TABLES,
    plan.PARAMS,
    plan.CONFIG,
    steps.run_step,
)


def main(argv: list[str] | None = None) -> None:
    """Run one command; an error a user can act on becomes one sentence and exit status 2."""
    with one_sentence():
        # Pillow's warnings (of large pictures, of damaged EXIF data) name no file;
        # what is refused is refused by name.
        warnings.filterwarnings("ignore", module=r"PIL\.")
        arguments = build_parser().parse_args(argv)
        configure(arguments.log_level, arguments.log_file)
        log.info(shlex.join(["recap", *(sys.argv[1:] if argv is None else argv)]), extra=FILE_ONLY)
        exit_without_workflow()
        arguments.function(arguments)


def build_parser() -> Parser:
    """Describe all commands."""
    parser = Parser(
        prog="recap",
        description=(
            "Reproduce image-captioning papers: from raw photos to result tables with p-values."
        ),
        epilog=(
            "`recap COMMAND --help` says more. The whole workflow: `make demo`, or `snakemake "
            "--cores all`."
        ),
    )
    parser.add_argument("--version", action="version", version=f"recap {__version__}")
    parser.add_argument(
        "--log-level", choices=LEVELS, default="info", help="lowest level of the messages (info)"
    )
    parser.add_argument(
        "--log-file",
        type=Path,
        metavar="PATH",
        help=f"add messages with times to this file, too (or set {VARIABLE})",
    )
    parser.add_commands(COMMANDS)
    return parser
