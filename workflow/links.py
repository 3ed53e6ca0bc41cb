"""Results that DVC linked to its cache: it makes them read-only, and Snakemake runs no job whose outputs are read-only.

No job writes into a file in place: a new file takes the place of the old one, and the one in the cache stays as it is.
So what belongs to the user may be made writable again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path


def make_writable(folders: Iterable[str | Path]) -> int:
    """Give the owner's right to write back to the read-only files below folders; return how many there were."""
    changed = 0
    for path in (path for folder in folders for path in Path(folder).rglob("*")):
        found = path.lstat()
        read_only = stat.S_ISREG(found.st_mode) and not found.st_mode & stat.S_IWUSR
        if read_only and found.st_uid == os.geteuid():
            path.chmod(stat.S_IMODE(found.st_mode) | stat.S_IWUSR)
            changed += 1
    return changed
