"""`SHA256SUMS`: the hashes of a folder's finished files, in the form that ``sha256sum --check``
reads.

A job records its files when they are whole; what reads them checks them first, so that a flipped
bit is refused before it costs a training or moves a score. Files that are not listed come from
elsewhere and pass. Feature stores, weights of models and training states are not listed: they
contain checksums. Trained backbones do not, and are listed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from filelock import lock_descriptor

from recap.core.errors import ChangedFile, DamagedFile
from recap.core.files import write_text
from recap.core.hashing import sha256_file

NAME = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  (?!\.{1,2}$)([^/\0]{1,255})")


def record(*files: Path) -> None:
    """List finished files of one folder in its `SHA256SUMS`.

    Others stay listed as long as they exist.
    """
    folder = files[0].parent
    own = {file.name: sha256_file(file) for file in files}
    handle = os.open(folder, os.O_RDONLY)
    try:
        lock_descriptor(handle)  # another job that lists its files here takes an instant
        sums = sorted((recorded(folder) | own).items())
        lines = [f"{digest}  {name}\n" for name, digest in sums if (folder / name).exists()]
        write_text(folder / NAME, "".join(lines))
    finally:
        os.close(handle)


def recorded(folder: Path) -> dict[str, str]:
    """Return the hashes by file name that a folder's `SHA256SUMS` lists.

    None where there is no such file.
    """
    path = folder / NAME
    if not path.exists():
        return {}
    sums = {}
    for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").splitlines(), 1):
        entry = _LINE.fullmatch(line)
        if entry is None:
            raise DamagedFile(
                f"{path}: line {number} is no sha256 with a file name; make the folder's files "
                "again"
            )
        sums[entry[2]] = entry[1]
    return sums


def check(file: Path) -> None:
    """Refuse a file that has changed since it was finished.

    One that its folder's `SHA256SUMS` does not list passes.
    """
    expected = recorded(file.parent).get(file.name)
    if expected is not None and file.exists() and sha256_file(file) != expected:
        raise ChangedFile(
            f"{file}: has changed since it was finished (its sha256 is not the one in {NAME}); "
            "delete it and repeat the command that makes it, or restore it"
        )
