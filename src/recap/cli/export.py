"""``recap export``: results in the forms that others ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recap.cli.arguments import Arguments, paths


def add_export(commands: Any) -> None:
    """Add the commands of this group."""

    def coco_server(a: Arguments) -> None:
        from recap.export.coco_server import write_submission

        print(write_submission(captions={"val2014": a.val, "test2014": a.test}, algorithm=a.algorithm, out=a.out))

    parser = commands.add_parser("coco-server", help="zip for the COCO caption server")
    parser.add_argument("--val", type=Path, nargs="+", required=True, help="files with captions of val2014")
    parser.add_argument("--test", type=Path, nargs="+", required=True, help="files with captions of test2014")
    parser.add_argument("--algorithm", required=True, help="name of the submission")
    paths(parser, "out")
    parser.set_defaults(function=coco_server)
