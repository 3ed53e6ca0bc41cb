"""Rights and times of files that DVC linked or copied."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from workflow.internals import read_record


def _below(folders: Iterable[str | Path]) -> Iterator[Path]:
    for folder in folders:
        yield from Path(folder).rglob("*")


# DVC makes the results that it links to its cache read-only, and Snakemake runs no job whose
# outputs are. A job replaces its files and writes into none, so the cache does not change.
def make_writable(folders: Iterable[str | Path]) -> None:
    """Give the owner's right to write back to the read-only files below folders."""
    for path in _below(folders):
        status = path.lstat()
        read_only = stat.S_ISREG(status.st_mode) and not status.st_mode & stat.S_IWUSR
        if read_only and status.st_uid == os.geteuid():
            path.chmod(stat.S_IMODE(status.st_mode) | stat.S_IWUSR)


# Before a stage DVC turns links into copies, which are newer. After it DVC links results that came
# out as before to their old version, which is older. Snakemake would skip jobs, or repeat some.
def restore_times(folders: Iterable[str | Path]) -> None:
    """Give results the time at which their job ended, as Snakemake recorded it.

    Outside of `dvc repro` a newer file is a change, and keeps its time.
    """
    within_dvc = "DVC_STAGE" in os.environ
    for path in _below(folders):
        ended = read_record(str(path)).get("endtime")
        written = path.lstat().st_mtime
        if ended and (written < ended or (within_dvc and written > ended)):
            os.utime(path, (ended, ended))
