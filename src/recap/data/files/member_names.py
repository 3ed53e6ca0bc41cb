"""Names in untrusted archives: which are refused, and where a member is written."""

from __future__ import annotations

import unicodedata
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path, PurePosixPath

from recap.core.errors import DataError

LONGEST = 255  # bytes of one name on the usual file systems
# Control characters end lines and steer terminals, invisible ones make two names look alike, half a pair is no text.
_REFUSED = ("Cc", "Cf", "Cs", "Zl", "Zp")


class MemberNames:
    """The names seen so far in one archive.

    What is unpacked must not depend on the disk. Two names that are one on disks that ignore case, or that normalize
    Unicode, are therefore refused everywhere: there the second file would take the place of the first.
    """

    def __init__(self, archive: Path) -> None:
        self._archive = archive
        self._files: dict[str, str] = {}
        self._folders: set[str] = set()

    def check(self, name: str, *, regular: bool, folder: bool) -> None:
        """Take note of the next name."""
        path = PurePosixPath(name)
        drive = len(name) > 1 and name[1] == ":"
        unprintable = any(unicodedata.category(character) in _REFUSED for character in name)
        if not name or path.is_absolute() or ".." in path.parts or "\\" in name or unprintable or drive:
            raise self._refusal(f"holds the unsafe name {name!r}")
        if any(len(part.encode()) > LONGEST for part in path.parts):
            raise DataError(
                f"{self._archive}: the name {name!r} is too long for most disks ({LONGEST} bytes); unpack it by hand"
            )
        if not regular:
            raise self._refusal(f"{name!r} is a link or a device")
        key = unicodedata.normalize("NFD", unicodedata.normalize("NFD", str(path)).casefold())
        parents = {str(parent) for parent in PurePosixPath(key).parents}
        if parents & self._files.keys() or (key in self._files if folder else key in self._folders):
            raise self._refusal(f"{str(path)!r} needs a folder where a file has the same name")
        self._folders |= {key, *parents} if folder else parents
        if not folder and key in self._files:
            twin = self._files[key]
            raise self._refusal(
                f"holds {twin!r} twice"
                if twin == str(path)
                else f"{twin!r} and {str(path)!r} are one file on disks that ignore case or forms of Unicode"
            )
        if not folder:
            self._files[key] = str(path)

    def _refusal(self, what: str) -> DataError:
        return DataError(f"{self._archive}: {what}; do not use this archive")


class Chosen:
    """The members that a glob chooses, and their places: `trainval/*.tsv` writes `trainval/a.tsv` to `a.tsv`.

    Attributes:
        members: the glob; a `*` stands for folders, too.
    """

    def __init__(self, members: str) -> None:
        """Take the glob."""
        self.members = members
        folders = PurePosixPath(members).parent.parts
        self._fixed = PurePosixPath(*takewhile(lambda part: not set("*?[") & set(part), folders))

    def place(self, name: str) -> str | None:
        """Return where a member is written, relative to the folder; None: it is not chosen."""
        path = PurePosixPath(name)
        return str(path.relative_to(self._fixed)) if fnmatchcase(str(path), self.members) else None
