"""The SQLite store of MLflow: created atomically, one writer at a time, with one message per kind of failure."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recap.core.errors import RecapError
from recap.core.files.atomic import atomic_path
from recap.core.files.lock import exclusive

# Creating a store, or publishing a large profile, takes seconds, on a busy machine minutes.
_WAIT_SECONDS = 600
# Messages of SQLite and the file system, and the remedy; the first match is used.
_FAILURES = (
    (
        ("database is locked", "database table is locked"),
        "another program is writing to this store; stop it or wait for it",
    ),
    (("disk is full", os.strerror(errno.ENOSPC).lower()), "the disk is full ({free:.0f} MiB free); make room"),
    (
        ("readonly database", "unable to open database file", "permission denied", "read-only file system"),
        "the store or its folder cannot be written; make both writable",
    ),
    (
        ("not a database", "malformed", "locate revision", "no such table", "no such column", "already exists"),
        "this MLflow cannot read this store ({reason}); move the file {store} away",
    ),
)


def init_store(store: Path) -> None:
    """Create or upgrade the SQLite store, one process at a time; an up-to-date store is not changed.

    Two processes that create a store at the same time corrupt it, hence the lock.

    Raises:
        RecapError: the store cannot be written or is not an MLflow store.
    """
    with open_store(store):
        pass


@contextmanager
def open_store(store: Path) -> Iterator[str]:
    """Lock the store, create or upgrade it, and yield its URI for MLflow's client.

    Raises:
        RecapError: MLflow, SQLite or the file system failed, also within the context; the message says what to do.
    """
    with (
        exclusive(store.with_name(f".{store.name}.lock"), wait_seconds=_WAIT_SECONDS, what=f"the store {store}"),
        _explain_failures(store),
    ):
        _upgrade(store)
        yield store_uri(store)


def store_uri(store: Path) -> str:
    """Return the URI of a store for MLflow's client."""
    return f"sqlite:///{store.resolve()}"


def silence_mlflow() -> None:
    """Disable MLflow's telemetry and its log of migration steps."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    logging.getLogger("alembic").setLevel(logging.WARNING)


@contextmanager
def _explain_failures(store: Path) -> Iterator[None]:
    """Turn failures of the store into one message."""
    silence_mlflow()
    from alembic.util.exc import CommandError
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, CommandError, OSError) as error:
        raise RecapError(
            f"{store}: {_advice(store, str(error))}, and run the same command again; "
            "no result is lost: the store is made from the result files"
        ) from error


def _advice(store: Path, text: str) -> str:
    """Return what is wrong with a store and what to do; an unknown failure is quoted."""
    reason = text.strip().splitlines()[0] if text.strip() else "no reason given"
    for words, advice in _FAILURES:
        if any(word in text.lower() for word in words):
            free = shutil.disk_usage(store.parent).free / 2**20
            return advice.format(free=free, reason=reason, store=store.name)
    return f"MLflow cannot use this store ({reason}); fix the cause"


def _upgrade(store: Path) -> None:
    """Create the store atomically, or upgrade its tables to this MLflow's version."""
    from mlflow.db import upgrade

    if store.exists():
        upgrade.main(args=[store_uri(store)], standalone_mode=False)
        return
    with atomic_path(store) as fresh:
        upgrade.main(args=[store_uri(fresh)], standalone_mode=False)
