"""The SQLite store of MLflow: made whole or not at all, one writer at a time, and what to do when it refuses."""

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

# Making a store takes seconds, on a busy machine minutes; publishing a large profile, too.
_WAIT_SECONDS = 600
# What SQLite and the file system say, and what to do about it; the first that fits counts.
_REFUSALS = (
    (
        ("database is locked", "database table is locked"),
        "another program is writing to this store; stop it or let it end",
    ),
    (("disk is full", os.strerror(errno.ENOSPC).lower()), "the disk is full ({free:.0f} MiB free); make room"),
    (
        ("readonly database", "unable to open database file", "permission denied", "read-only file system"),
        "the store or its folder cannot be written; make both writable",
    ),
    (
        ("not a database", "malformed", "locate revision", "no such table", "no such column", "already exists"),
        "this is no store that this MLflow can read ({reason}); move the file {store} away",
    ),
)


def init_store(store: Path) -> None:
    """Make or upgrade the SQLite store, one process at a time; a store that is up to date stays as it is.

    Processes that meet in a fresh store break it for good, hence the lock.

    Raises:
        RecapError: the store cannot be written or is no MLflow store.
    """
    with opened(store):
        pass


@contextmanager
def opened(store: Path) -> Iterator[str]:
    """Hold the lock of the store, make or upgrade it, and yield its address for MLflow's client.

    Raises:
        RecapError: the store refuses, at any time; the sentence says what to do.
    """
    with (
        exclusive(store.with_name(f".{store.name}.lock"), wait_seconds=_WAIT_SECONDS, what=f"the store {store}"),
        _explained(store),
    ):
        _upgrade(store)
        yield uri(store)


def uri(store: Path) -> str:
    """Return the address of a store for MLflow's client."""
    return f"sqlite:///{store.resolve()}"


def quiet() -> None:
    """Keep MLflow from reporting usage and from writing every migration step on the console."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    logging.getLogger("alembic").setLevel(logging.WARNING)


@contextmanager
def _explained(store: Path) -> Iterator[None]:
    """Turn whatever the store refuses into one sentence; results do not depend on it."""
    quiet()
    from alembic.util.exc import CommandError
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, CommandError, OSError) as error:
        raise RecapError(
            f"{store}: {_advice(store, str(error))}, and run the same command again; "
            "all results are safe: this is a view made from them"
        ) from error


def _advice(store: Path, text: str) -> str:
    """Return what is wrong with a store and what to do; an unknown refusal is quoted."""
    reason = text.strip().splitlines()[0] if text.strip() else "no reason given"
    for words, advice in _REFUSALS:
        if any(word in text.lower() for word in words):
            free = shutil.disk_usage(store.parent).free / 2**20
            return advice.format(free=free, reason=reason, store=store.name)
    return f"MLflow cannot use this store ({reason}); see to that"


def _upgrade(store: Path) -> None:
    """Make the store, whole or not at all, or bring its tables to this MLflow's version."""
    from mlflow.db import upgrade

    if store.exists():
        upgrade.main(args=[uri(store)], standalone_mode=False)
        return
    with atomic_path(store) as fresh:
        upgrade.main(args=[uri(fresh)], standalone_mode=False)
