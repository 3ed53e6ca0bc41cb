"""``recap doctor``: what recap finds on this machine."""

from __future__ import annotations

from pathlib import Path

from recap.cli.arguments import Arguments
from recap.cli.parser import Commands, command


def add_doctor(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands,
        "doctor",
        purpose="check this machine: tools, versions, what is lost without each, how to get it",
        example="""
            recap doctor
            recap doctor --folder /scratch
        """,
    )
    parser.add_argument(
        "--folder", type=Path, default=Path(), metavar="PATH", help="whose disk results go to (the current folder)"
    )
    parser.set_defaults(function=doctor)


def doctor(a: Arguments) -> None:
    """Print the screen."""
    from recap.core.errors import MissingFile
    from recap.cost.doctor import examine, screen

    if not a.folder.is_dir():
        raise MissingFile(f"{a.folder}: no such folder; name one on the disk that results go to")
    print(screen(examine(a.folder)))
