"""Responses that the server received, in SQLite: what was acknowledged survives a kill and a power failure."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from recap.core.errors import DataError

Answers = dict[str, dict[str, str]]  # number of the item -> question -> answer
_WAIT_SECONDS = 30.0  # for another writer
_TABLE = """
CREATE TABLE IF NOT EXISTS submissions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    sheet TEXT NOT NULL,
    content TEXT NOT NULL,
    UNIQUE (sheet, content)
)
"""


class Store:
    """The file of a server; threads may share it.

    A submission that equals an earlier one of its sheet takes that one's place, so that a repeated request doubles
    nothing; a changed one is added, and `recap study import` takes the last.
    """

    def __init__(self, path: Path) -> None:
        """Open or create the file.

        Raises:
            DataError: it is no such file, or cannot be written.
        """
        self.path = path
        self._local = threading.local()
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self._connection() as connection:
                connection.execute(_TABLE)
        except sqlite3.Error as error:
            raise DataError(f"{path}: cannot hold responses ({error}); name another file") from error

    def add(self, sheet: str, content: str) -> None:
        """Keep a submission; when this returns, it is on the disk."""
        with self._connection() as connection:
            connection.execute("DELETE FROM submissions WHERE sheet = ? AND content = ?", (sheet, content))
            connection.execute("INSERT INTO submissions (sheet, content) VALUES (?, ?)", (sheet, content))

    def sheets(self) -> int:
        """Return how many sheets have been handed in."""
        with self._connection() as connection:
            return int(connection.execute("SELECT COUNT(DISTINCT sheet) FROM submissions").fetchone()[0])

    def _connection(self) -> sqlite3.Connection:
        """Return this thread's connection; as a context it commits, or rolls back what failed."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = sqlite3.connect(self.path, timeout=_WAIT_SECONDS)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # each commit is synced
            self._local.connection = connection
        return connection


def read_store(path: Path) -> Iterator[tuple[int, str]]:
    """Yield number and content of the submissions in a file, the earliest first.

    Raises:
        DataError: it is no such file.
    """
    connection = sqlite3.connect(path)
    try:
        yield from connection.execute("SELECT number, content FROM submissions ORDER BY number").fetchall()
    except sqlite3.Error as error:
        raise DataError(f"{path}: no file of `recap study serve` ({error})") from error
    finally:
        connection.close()
