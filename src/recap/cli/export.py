"""``recap export``: results in the forms that others ask for."""

from __future__ import annotations

from pathlib import Path

from recap.cli.arguments import Arguments, paths
from recap.cli.parser import Commands, command


def add_export(commands: Commands) -> None:
    """Add the commands of this group."""
    parser = command(
        commands,
        "coco-server",
        purpose="zip for the COCO caption server",
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
    paths(parser, out="the zip")
    parser.set_defaults(function=_coco_server)


def _coco_server(a: Arguments) -> None:
    from recap.export.coco_submission import write_submission

    print(write_submission(captions={"val2014": a.val, "test2014": a.test}, algorithm=a.algorithm, out=a.out))
