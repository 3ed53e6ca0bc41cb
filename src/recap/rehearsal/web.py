"""Miniatures of Conceptual Captions: TSVs with addresses of pictures, and the pictures."""

from __future__ import annotations

import re
from pathlib import Path

from recap.rehearsal.world import World, picture, sentence

FOLDER = "web"  # of the pictures' addresses
_HELD_OUT = 1_000_000  # numbers of the validation pictures start here
_SIZE = (96, 72)


def write_training(world: World, path: Path) -> None:
    """Write ``GCC-training.tsv``: caption and address a line."""
    _write(world, path, range(world.web))


def write_validation(world: World, path: Path) -> None:
    """Write ``GCC-1.1.0-Validation.tsv``."""
    _write(world, path, range(_HELD_OUT, _HELD_OUT + world.held_out))


def _write(world: World, path: Path, numbers: range) -> None:
    lines = (f"{sentence(number).lower()}\t{world.address}/{FOLDER}/{number}.jpg\n" for number in numbers)
    path.write_text("".join(lines))


def web_picture(name: str) -> bytes | None:
    """Return the picture at the path of an address, ``web/<number>.jpg``; None: there is none."""
    found = re.fullmatch(rf"{FOLDER}/(\d+)\.jpg", name)
    return picture(int(found[1]), _SIZE) if found else None
