"""DVC's cache: a file in it is named by its md5, and DVC trusts the name. Here the bytes are compared with it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path

from recap.artifacts.listings import DIR
from recap.core.files import atomic_path


class DvcCache:
    """The objects of a cache: files by md5, and the listings of folders by md5 and `.dir`.

    Args:
        folder: what `dvc cache dir` prints.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> bytes:
        """Return the bytes of an object."""
        return (self._folder / place(name)).read_bytes()

    def add(self, name: str, content: bytes) -> None:
        """Write an object in place of what has its name."""
        with atomic_path(self._folder / place(name)) as temporary:
            temporary.write_bytes(content)

    def missing(self, names: Collection[str]) -> list[str]:
        """Return the objects that are not there; those whose bytes have another md5 are removed first."""
        found = []
        for name in names:
            path = self._folder / place(name)
            if path.exists():
                with path.open("rb") as file:
                    digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
                if digest != name.removesuffix(DIR):
                    path.unlink()
            if not path.exists():
                found.append(name)
        return found


def place(name: str) -> str:
    """Return where an object is in DVC's cache, and in a remote."""
    return f"files/md5/{name[:2]}/{name[2:]}"
