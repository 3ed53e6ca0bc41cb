"""The folder of outside files that a profile used last."""

from __future__ import annotations

from pathlib import Path

# the folder of outside files that a profile's workflow last used: a hint on this machine
INPUTS = "inputs.txt"


def noted_inputs(results: Path) -> Path | None:
    """Return the folder that was noted for `results/<profile>`, or None."""
    root = results.absolute().parent.parent
    path = root / "work" / results.name / INPUTS
    return (
        root / path.read_text(encoding="utf-8", errors="replace").rstrip("\n")
        if path.is_file()
        else None
    )
