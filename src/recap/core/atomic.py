"""Files that are either whole or absent: write beside, fsync, rename."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from recap.core.errors import RecapError


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path``; on success it is synced and renamed, on failure removed.

    Raises:
        RecapError: the disk is full (the sentence names the file and the free space).
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    temporary = Path(name)
    try:
        with naming_full_disk(path):
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def naming_full_disk(path: Path) -> Iterator[None]:
    """Turn the system's word of a full disk into a sentence that names the file and the free space."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            free = shutil.disk_usage(path.parent).free / 2**20
            raise RecapError(f"{path}: the disk is full ({free:.0f} MiB free); make room and run it again") from error
        raise


def _umask() -> int:
    """Return the process's umask (mkstemp ignores it; other users of the artefacts do not)."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(path: str | Path, text: str) -> None:
    """Write ``text`` as UTF-8, atomically."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Write ``value`` as JSON with sorted keys, atomically, so that equal values give equal bytes."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file; a missing or broken one is an error that names it."""
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RecapError(f"{path}: no such file; run the step that makes it first") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise RecapError(f"{path}: not valid JSON ({error}); delete it and make it again") from error
