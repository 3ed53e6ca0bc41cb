"""Files that are either whole or absent: write beside, fsync, rename."""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from recap.core.errors import RecapError
from recap.core.files.disk import naming_full_disk
from recap.core.problems import adapter, first_problem

__all__ = ["atomic_path", "naming_full_disk", "parse_json", "read_json", "write_json", "write_text"]


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of ``path``; on success it is synced and renamed, on failure removed.

    The temporary file of a killed write of the same file is removed first; that of a running one is kept.

    Raises:
        RecapError: the disk is full or read-only, or a folder is where the file should be or the reverse; also where a
            library raised another exception because of it.
    """
    path = Path(path)
    with naming_full_disk(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path.parent, re.escape(path.name))
        handle, temporary = _new_part(path)
    try:
        with naming_full_disk(path):
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
    finally:
        # If the disk became read-only, the temporary file remains; the next write removes it.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        os.close(handle)


def _new_part(path: Path) -> tuple[int, Path]:
    """Return a new file beside ``path`` and its handle, whose lock shows that the writer is running."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        if _locked(handle) and Path(name).exists():
            return handle, Path(name)
        # Another writer removed it as a leftover before it was locked.
        os.close(handle)


def remove_leftovers(folder: Path, names: str) -> None:
    """Remove the temporary files of killed writes, and what a library wrote beside them; not those of a running one.

    Args:
        folder: of the files; it may be missing.
        names: regular expression for the names of the files that were to be written.
    """
    if not folder.is_dir():
        return
    temporary = re.compile(rf"(\.(?:{names})\.[a-z0-9_]{{8}}\.part)(?:-[a-z]+)?")
    with os.scandir(folder) as entries:
        found = [match for match in map(temporary.fullmatch, (entry.name for entry in entries)) if match]
    for match in found:
        with _claimed(folder / match[1]) as is_left:
            if is_left:
                (folder / match[0]).unlink(missing_ok=True)


def is_being_written(part: Path) -> bool:
    """Return whether the process that writes a temporary file is running."""
    with _claimed(part) as is_left:
        return not is_left


@contextmanager
def _claimed(part: Path) -> Iterator[bool]:
    """Yield whether the process that wrote a temporary file is gone.

    Within, the file stays locked: a writer that has just made it could lock it between the question and its removal.
    """
    try:
        handle = os.open(part, os.O_RDONLY)
    except FileNotFoundError:
        yield True
        return
    except PermissionError:  # it belongs to another user
        yield False
        return
    try:
        yield _locked(handle)
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _umask() -> int:
    """Return the process's umask (mkstemp ignores it; other readers of the files do not)."""
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


def read_json(path: str | Path, kind: Any = Any) -> Any:
    """Read a JSON file that a job made, as a type that pydantic knows.

    Raises:
        RecapError: it is missing, broken or of another type; the sentence names file and key.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise RecapError(f"{path}: no such file; run the step that makes it first") from error
    except OSError as error:
        raise RecapError(f"{path}: cannot be read ({error.strerror}); name a file that you may read") from error
    return parse_json(content, str(path), kind)


def parse_json(content: bytes, source: str, kind: Any = Any) -> Any:
    """Return what a JSON text holds, as a type that pydantic knows.

    Args:
        content: the text in UTF-8.
        source: where it is from, for messages.
        kind: the type.

    Raises:
        RecapError: it is no JSON of this type, or holds a number that `write_json` does not write.
    """
    try:
        values = json.loads(content.decode(), parse_int=_whole, parse_float=_finite, parse_constant=_finite)
        return adapter(kind).validate_python(values)
    except ValidationError as error:
        raise RecapError(f"{source}: {first_problem(error, kind)}; delete it and make it again") from error
    except (ValueError, RecursionError) as error:
        raise RecapError(f"{source}: not valid JSON ({error}); delete it and make it again") from error


def _whole(text: str) -> int:
    if not -(2**63) <= (number := int(text)) < 2**63:
        raise ValueError("a whole number has more than 64 bits")
    return number


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:20]} is no finite number")
    return number
