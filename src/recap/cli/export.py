"""``recap export``: results in the forms that others ask for."""

from __future__ import annotations

from pathlib import Path

from recap.cli.arguments import Arguments, add_execution, chosen, given_execution, paths, spec, typed
from recap.cli.parser import Commands, command
from recap.core.process.gpus import claim

_PARTIAL = "a part of COCO is meant: no number of pictures is asserted, and the server would refuse the result"


def add_export(commands: Commands) -> None:
    """Add the commands of this group."""
    parser = command(
        commands,
        "captions",
        purpose="captions of all pictures of val2014 or test2014, in COCO's results form",
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
        purpose="what the COCO caption server takes: captions of val2014 and test2014, and a zip of both",
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
    from recap.export.coco_submission import write_submission
    from recap.settings.datasets.coco_pictures import PARTS

    captions = {"val2014": a.val, "test2014": a.test}
    sizes = None if a.partial else PARTS
    print(write_submission(captions=captions, algorithm=a.algorithm, out=a.out, sizes=sizes))
