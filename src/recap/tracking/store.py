"""The SQLite store of MLflow: created atomically, one writer at a time, with one message per kind of failure."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from recap.core.errors import MissingFile, RecapError, first_line
from recap.core.files import atomic_path, exclusive

# Marks the experiments that are made from results.
MARK = {"recap": "runs"}
# Creating a store, or publishing a large profile, takes seconds, on a busy machine minutes.
_WAIT_SECONDS = 600
# What SQLite and the system call a failure, and the remedy.
_ADVICE = {
    ("SQLITE_BUSY", "SQLITE_LOCKED"): "another program is writing to this store; stop it or wait for it",
    ("SQLITE_FULL", "ENOSPC"): "the disk is full ({free:.0f} MiB free); make room",
    ("SQLITE_READONLY", "SQLITE_CANTOPEN", "EACCES", "EPERM", "EROFS"): (
        "the store or its folder cannot be written; make both writable"
    ),
}


def init_store(store: Path) -> None:
    """Create or upgrade the SQLite store, one process at a time; an up-to-date store is not changed.

    Two processes that create a store at the same time corrupt it, hence the lock.
    """
    with open_store(store):
        pass


@contextmanager
def open_store(store: Path) -> Iterator[str]:
    """Lock the store, create or upgrade it, and yield its URI for MLflow's client."""
    with (
        exclusive(store.with_name(f".{store.name}.lock"), wait_seconds=_WAIT_SECONDS, what=f"the store {store}"),
        _explain_failures(store),
    ):
        _prepare(store)
        yield store_uri(store)


def store_uri(store: Path) -> str:
    """Return the URI of a store for MLflow's client."""
    return f"sqlite:///{store.resolve()}"


def run_list_urls(*, store: Path, port: int) -> dict[str, str]:
    """Return the URL of every experiment's run list, by the name of the experiment."""
    if not store.exists():
        raise MissingFile(f"{store}: nothing has been published yet; run a profile first, e.g. `make demo`")
    silence_mlflow()
    from mlflow.tracking import MlflowClient

    client: MlflowClient = MlflowClient(tracking_uri=store_uri(store))
    found = [each for each in client.search_experiments() if MARK.items() <= each.tags.items()]
    return {each.name: f"http://127.0.0.1:{port}/#/experiments/{each.experiment_id}" for each in found}


def silence_mlflow() -> None:
    """Disable MLflow's telemetry and its log of migration steps."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    logging.getLogger("alembic").setLevel(logging.WARNING)


@contextmanager
def _explain_failures(store: Path) -> Iterator[None]:
    """Turn failures of the store into one message."""
    silence_mlflow()
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, sqlite3.Error, subprocess.CalledProcessError, OSError) as error:
        raise RecapError(
            f"{store}: {_advice(store, error)}, and run the same command again; "
            "no result is lost: the store is made from the result files"
        ) from error


def _advice(store: Path, error: BaseException) -> str:
    """Return what is wrong with a store and what to do; a failure of the system that is not known is quoted."""
    code = _code(error)
    for codes, advice in _ADVICE.items():
        if code.startswith(codes):  # SQLITE_READONLY_DIRECTORY is a case of SQLITE_READONLY
            return advice.format(free=shutil.disk_usage(store.parent).free / 2**20)
    if getattr(error, "error_code", "") == "INVALID_PARAMETER_VALUE":
        return f"MLflow refuses a name or a value ({first_line(error)}); change it in the parameters"
    if isinstance(error, OSError):
        return f"MLflow cannot use this store ({first_line(error)}); fix the cause"
    return f"this MLflow cannot read this store ({first_line(error)}); move the file {store.name} away"


def _code(error: BaseException | None) -> str:
    """Return the code that SQLite or the system gave the cause of an error, "" if neither did."""
    while error is not None:
        if isinstance(error, sqlite3.Error):
            return getattr(error, "sqlite_errorname", "")
        if isinstance(error, OSError) and error.errno:
            return errno.errorcode[error.errno]
        error = error.__cause__
    return ""


def _prepare(store: Path) -> None:
    """Create the store atomically, or upgrade its tables to this MLflow's version."""
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    if not store.exists():
        with atomic_path(store) as fresh:
            _upgrade(fresh)
        return
    with closing(sqlite3.connect(store, isolation_level=None)) as database:  # MLflow would try again for long
        database.execute("BEGIN IMMEDIATE")
    try:
        MlflowClient(tracking_uri=store_uri(store)).search_experiments(max_results=1)
    except MlflowException as error:
        try:
            _upgrade(store)
        except subprocess.CalledProcessError:
            raise error from None


def _upgrade(store: Path) -> None:
    """Create or upgrade the tables by MLflow's command."""
    command = [sys.executable, "-P", "-m", "mlflow", "db", "upgrade", store_uri(store)]
    subprocess.run(command, check=True, capture_output=True)
