"""``recap rehearse``: a paper's whole workflow on miniatures of its outside files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recap.cli.arguments import Arguments, add_params_folder
from recap.cli.parser import Commands, command


def add_rehearse(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands,
        "rehearse",
        purpose="run a paper's whole workflow on miniatures of its data, in minutes",
        example="""
            recap rehearse mine
            recap rehearse mine --short --folder /data/try
        """,
    )
    parser.add_argument("paper", metavar="PAPER", help="folder of params/")
    parser.add_argument("--short", action="store_true", help="not every row, but every rule")
    parser.add_argument(
        "--faults",
        action="store_true",
        help="only fetch and unpack, from a server that misbehaves, and with kills; a rehearsal can go on from there",
    )
    parser.add_argument(
        "--folder", type=Path, metavar="PATH", help="a new folder for all that is made (default: a temporary one)"
    )
    parser.add_argument("--cores", type=int, default=2, metavar="N", help="jobs at once (2)")
    add_params_folder(parser)
    parser.set_defaults(function=_rehearse)


def _rehearse(a: Arguments) -> None:
    from tempfile import mkdtemp

    from recap.cli.train_row import SNAKEFILE
    from recap.core.files import write_text
    from recap.rehearsal.acquisition import rehearse_faults
    from recap.rehearsal.rehearse import rehearse
    from recap.rehearsal.summary import summary, table_of_faults

    folder = a.folder or Path(mkdtemp(prefix=f"recap-{a.paper}-"))
    how: dict[str, Any] = {"params": a.params, "folder": folder, "short": a.short, "cores": a.cores}
    if a.faults:
        said = table_of_faults(rehearse_faults(a.paper, snakefile=SNAKEFILE, **how))
    else:
        said = summary(rehearse(a.paper, snakefile=SNAKEFILE, **how))
    write_text(folder / ("faults.txt" if a.faults else "summary.txt"), f"{said}\n")
    print(said)
