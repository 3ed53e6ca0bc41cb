"""Miniatures of texts of the web: Conceptual Captions,
with addresses of pictures and the pictures, and WikiText."""

from __future__ import annotations

import re
from pathlib import Path

from rehearsal.archives import write_zip
from rehearsal.world import World, picture, sentence

FOLDER = "web"  # of the pictures' addresses
_HELD_OUT = 1_000_000  # numbers of the validation pictures start here
_SIZE = (96, 72)


def write_training(world: World, path: Path) -> None:
    """Write ``GCC-training.tsv``: caption and address a line."""
    _write(world, path, range(world.web))


def write_validation(world: World, path: Path) -> None:
    """Write ``GCC-1.1.0-Validation.tsv``."""
    _write(world, path, range(_HELD_OUT, _HELD_OUT + world.held_out))


def write_articles(world: World, path: Path) -> None:
    """Write ``wikitext-2-v1.zip``: three splits of an article, words and marks parted by spaces."""
    body = "".join(
        f" {sentence(number)} , <unk> and 3 @-@ storey . \n" for number in range(world.held_out)
    )
    article = f" \n = Article = \n \n{body} \n"
    write_zip(
        path, {f"wikitext-2/wiki.{split}.tokens": article for split in ("train", "valid", "test")}
    )


def _write(world: World, path: Path, numbers: range) -> None:
    lines = (
        f"{sentence(number).lower()}\t{world.address}/{FOLDER}/{number}.jpg\n" for number in numbers
    )
    path.write_text("".join(lines))


def web_picture(name: str) -> bytes | None:
    """Return the picture at the path of an address, ``web/<number>.jpg``; None: there is none."""
    found = re.fullmatch(rf"{FOLDER}/(\d+)\.jpg", name)
    return picture(int(found[1]), _SIZE) if found else None
