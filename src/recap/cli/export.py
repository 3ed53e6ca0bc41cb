"""``recap export``: results in the forms that others ask for."""

from __future__ import annotations

from pathlib import Path

from recap.cli.arguments import (
    Arguments,
    add_execution,
    add_params_folder,
    add_run_files,
    chosen,
    given_execution,
    paths,
    spec,
    typed,
)
from recap.cli.parser import Commands, Parser, command
from recap.core.log import log
from recap.core.process.gpus import claim

_PARTIAL = "a part of COCO is meant: no number of pictures is asserted, and the server would refuse the result"


def add_export(commands: Commands) -> None:
    """Add the commands of this group."""
    parser = command(
        commands,
        "captions",
        purpose="caption all pictures of val2014 or test2014, in COCO's results format",
        example="""
            recap export captions --spec '{"evaluation": {"beam": 3}}' --part test2014 --corpus corpus.parquet \\
              --vocabulary vocabulary.json --features features.h5 --model seed-1/scst seed-2/scst --out captions.json
        """,
    )
    spec(parser, "EvaluationSpec")
    add_execution(parser)
    parser.add_argument(
        "--part", required=True, metavar="NAME", help="folder of the pictures' names: val2014, test2014"
    )
    parser.add_argument("--partial", action="store_true", help=_PARTIAL)
    paths(parser, "corpus", "vocabulary", "features", "model", out="the captions (JSON)")
    parser.set_defaults(function=_captions)
    _add_coco_server(commands)
    _add_hub(commands)
    _add_mlflow(commands)


def _captions(a: Arguments) -> None:
    settings, execution = typed(a, "EvaluationSpec"), given_execution(a)
    claim(execution.device)
    from recap.evaluation.unscored import caption_part

    files = chosen(a, "part partial corpus vocabulary features model out")
    caption_part(spec=settings, execution=execution, **files)


def _add_coco_server(commands: Commands) -> None:
    parser = command(
        commands,
        "coco-server",
        purpose="zip the captions of val2014 and test2014 for the COCO caption server",
        example="recap export coco-server --val val.json --test test.json --algorithm transformer --out mine.zip",
    )
    for split in ("val", "test"):
        parser.add_argument(
            f"--{split}",
            type=Path,
            nargs="+",
            required=True,
            metavar="PATH",
            help=f"files with captions of {split}2014",
        )
    parser.add_argument("--algorithm", required=True, metavar="NAME", help="name of the submission")
    parser.add_argument("--partial", action="store_true", help=_PARTIAL)
    paths(parser, out="the zip; the two files in it are written beside it")
    parser.set_defaults(function=_coco_server)


def _coco_server(a: Arguments) -> None:
    from recap.settings.datasets.coco_pictures import PARTS
    from recap.share.coco_server import write_submission

    captions = {"val2014": a.val, "test2014": a.test}
    sizes = None if a.partial else PARTS
    print(write_submission(captions=captions, algorithm=a.algorithm, out=a.out, sizes=sizes))


def _add_hub(commands: Commands) -> None:
    parser = command(
        commands,
        "hub",
        _hub,
        purpose="a run as one folder for the HuggingFace hub: weights, settings, vocabulary, features, card",
        example="recap export hub results/demo --out shared/demo",
    )
    _add_run(parser)
    add_params_folder(parser)


def _add_mlflow(commands: Commands) -> None:
    parser = command(
        commands,
        "mlflow",
        _mlflow,
        purpose="a run as an MLflow model: image bytes in, captions out",
        example="recap export mlflow results/demo --out shared/model",
    )
    _add_run(parser)
    add_params_folder(parser)


def _add_run(parser: Parser) -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run, or one above several runs")
    paths(parser, out="the new folder")
    add_run_files(parser)


def _hub(a: Arguments) -> None:
    from recap.share.export import export_hub

    export_hub(**chosen(a, "run out params vocabulary features weights"))
    log.info(f"{a.out}: recap.load reads it; README.md is the card: check the licenses before you share it")


def _mlflow(a: Arguments) -> None:
    from recap.share.export import export_mlflow

    export_mlflow(**chosen(a, "run out params vocabulary features weights"))
    log.info(f"serve it with: mlflow models serve -m {a.out} --env-manager local --host 127.0.0.1 --port 5001")
