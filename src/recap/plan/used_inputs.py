"""The folder of outside files that a profile's workflow last used: a hint on this machine, part of no result."""

from __future__ import annotations

from pathlib import Path

from recap.core.files import write_text

NAME = "inputs.txt"


def note(work: Path, inputs: str) -> None:
    """Write the `inputs` of a profile into its folder `work/<profile>`; an equal note is left alone."""
    path = work / NAME
    if not path.exists() or path.read_text(encoding="utf-8") != f"{inputs}\n":
        write_text(path, f"{inputs}\n")


def noted(results: Path) -> Path | None:
    """Return the folder that was noted for `results/<profile>`, or None."""
    root = results.absolute().parent.parent
    path = root / "work" / results.name / NAME
    return root / path.read_text(encoding="utf-8", errors="replace").rstrip("\n") if path.is_file() else None
