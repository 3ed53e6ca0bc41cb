"""Responses that the server received, in SQLite: what was acknowledged survives a kill and a power failure."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from recap.core.errors import DamagedData, DataError

_WAIT_SECONDS = 10.0  # for another writer
_TABLE = """
CREATE TABLE IF NOT EXISTS submissions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    sheet TEXT NOT NULL,
    content TEXT NOT NULL,
    UNIQUE (sheet, content)
)
"""


class Store:
    """The file of a server, which only its owner may read; threads may share it.

    A submission that equals an earlier one of its sheet takes that one's place, so that a repeated request doubles
    nothing; a changed one is added, and `recap study import` takes the last.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writing = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.chmod(0o600)
        try:
            self._connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")  # each commit is synced
            with self._connection:
                self._connection.execute(_TABLE)
            self._connection.execute("SELECT COUNT(*) FROM submissions").fetchone()  # opens the file of the log, too
        except sqlite3.Error as error:
            raise DataError(f"{path}: cannot hold responses ({error}); name another file") from error
        self._opened = self._on_disk()

    def add(self, sheet: str, content: str) -> None:
        """Store a submission; when this returns, it is on the disk."""
        if not self._writing.acquire(timeout=_WAIT_SECONDS):
            raise DataError(f"{self.path}: is busy; the response was not stored")
        try:
            with self._connection as connection:  # commits, or rolls back what failed
                connection.execute("DELETE FROM submissions WHERE sheet = ? AND content = ?", (sheet, content))
                connection.execute("INSERT INTO submissions (sheet, content) VALUES (?, ?)", (sheet, content))
        except sqlite3.Error as error:
            raise DataError(f"{self.path}: cannot be written ({error}); the response was not stored") from error
        finally:
            self._writing.release()
        if self._on_disk() != self._opened:
            raise DataError(
                f"{self.path}: was removed or replaced while the server runs; the response was not stored. Put the "
                "file (and the one that ends in -wal) back, or restart the server, which begins a new file"
            )

    def close(self) -> None:
        """Close the file, which then holds everything without the one that ends in -wal."""
        self._connection.close()

    def _on_disk(self) -> list[tuple[int, int]] | None:
        """Return what tells the files of this name from others: the open ones may have been removed."""
        try:
            files = [Path(f"{self.path}{ending}").stat() for ending in ("", "-wal")]
        except OSError:
            return None
        return [(status.st_dev, status.st_ino) for status in files]


def read_store(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number and content of the submissions in a file, the earliest first; no content of one that is damaged."""
    connection = sqlite3.connect(path)
    connection.text_factory = bytes  # a damaged text need not be UTF-8
    try:
        for (number,) in connection.execute("SELECT number FROM submissions ORDER BY number").fetchall():
            content = b""
            with suppress(sqlite3.Error, ValueError, TypeError):
                query = "SELECT content FROM submissions WHERE number = ? AND typeof(content) = 'text'"
                (content,) = connection.execute(query, (number,)).fetchone()
            yield int(number), content
    except (sqlite3.Error, ValueError, TypeError, OverflowError) as error:
        raise DamagedData(f"{path}: no file of `recap study serve`, or damaged ({error}); restore it") from error
    finally:
        connection.close()
