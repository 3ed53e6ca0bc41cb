"""``recap scores``: scores that others computed."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from recap.cli.arguments import Arguments
from recap.cli.parser import Commands, command


def add_scores(commands: Commands) -> None:
    """Add the commands of this group."""
    parser = command(
        commands,
        "import",
        purpose="import the answer of COCO's caption server into a table",
        example="""
            recap scores import answer.json --submission reports/mine/server/mine_t2_wide --date 2026-11-24
        """,
    )
    parser.add_argument("answer", type=Path, metavar="FILE", help="the answer: JSON, or text with a score a line")
    parser.add_argument(
        "--submission", type=Path, required=True, metavar="PATH", help="folder of what was sent, with its captions"
    )
    parser.add_argument("--date", type=date.fromisoformat, required=True, metavar="YYYY-MM-DD", help="of the answer")
    parser.set_defaults(function=_import)


def _import(a: Arguments) -> None:
    from recap.share.coco_server import import_answer

    import_answer(answer=a.answer, submission=a.submission, day=a.date)
