"""Finished runs in MLflow, made from the result files: deleting MLflow's store loses nothing.

Training and scoring never import this: no run depends on a tracking service.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from recap.core.documents import write_json
from recap.core.errors import MissingFile, RecapError, counted, first_line
from recap.core.files import atomic_path, exclusive
from recap.core.log import log
from recap.share.tracking_records import Record, read_runs

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

# Before MLflow is imported: no telemetry, no log of migration steps.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
logging.getLogger("alembic").setLevel(logging.WARNING)

# Of our experiments; relative to the artifact folder of the server, so that a clone may be moved.
LOCATION = "mlflow-artifacts:/"
# creating a store, or publishing a large profile, takes minutes on a busy machine
_WAIT_SECONDS = 600


def publish(*, profile: str, results: Path, store: Path, out: Path) -> None:
    """Make the store equal to the results of a profile, then write its runs' keys to ``out``."""
    records = read_runs(profile, results)
    if not records:  # a mistyped folder must not empty the store
        raise MissingFile(
            f"{results}: has no finished run; run the profile first, or give the folder of its "
            "results"
        )
    with _open(store) as client:
        written = _synchronize(client, store, profile, records)
    write_json(
        out,
        {
            "runs": len(records),
            "keys": sorted(record.key for record in records),
            "store": store.name,
        },
    )
    log.info(f"mlflow: {written} of {counted(len(records), 'run')} written to {store}")


def remove_runs(*, profile: str, store: Path) -> None:
    """Remove the runs of a profile from the store; those of other profiles stay."""
    with _open(store) as client:
        _synchronize(client, store, profile, [])


def init_store(store: Path) -> None:
    """Create or upgrade the SQLite store, one process at a time.

    An up-to-date store is not changed.
    """
    with _open(store):
        pass


def print_run_lists(*, store: Path, port: int) -> None:
    """Print the address of every experiment's run list, for `make ui`."""
    if not store.exists():
        raise MissingFile(
            f"{store}: nothing has been published yet; run a profile first, e.g. `make demo`"
        )
    for each in _client(store).search_experiments():
        if each.artifact_location == LOCATION:
            print(
                f"runs on {each.name}: "
                f"http://127.0.0.1:{port}/#/experiments/{each.experiment_id}/runs"
            )


def _synchronize(client: MlflowClient, store: Path, profile: str, records: list[Record]) -> int:
    """Create, replace and remove runs of a profile until they equal the records.

    Return how many were written.
    """
    datasets = {record.tags["dataset"] for record in records}
    experiments = {name: _experiment(client, name) for name in sorted(datasets)}
    missing = {
        (record.key, experiments[record.tags["dataset"]], record.content_hash()): record
        for record in records
    }
    every = [experiment.experiment_id for experiment in client.search_experiments()]
    # More runs than 50,000 MLflow returns in no page, and no profile has.
    for run in client.search_runs(every, f"tags.recap_profile = '{profile}'", max_results=50_000):
        tags = run.data.tags
        # A killed publish leaves a run without its hash,
        # which is written last, or two runs of one key.
        if (
            missing.pop(
                (tags["job_key"], run.info.experiment_id, tags.get("content_hash", "")), None
            )
            is None
        ):
            client.delete_run(run.info.run_id)
    for (_, experiment, content_hash), record in missing.items():
        _create(client, experiment, record, content_hash, store.parent / "artifacts")
    return len(missing)


def _experiment(client: MlflowClient, name: str) -> str:
    """Return the id of a data set's experiment; one that was deleted by hand is restored."""
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        return client.create_experiment(name, artifact_location=LOCATION)
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
    return experiment.experiment_id


def _create(
    client: MlflowClient, experiment: str, record: Record, content_hash: str, artifacts: Path
) -> None:
    """Write one run."""
    from mlflow.entities import Metric, Param

    tags = {**record.tags, "job_key": record.key, "mlflow.note.content": record.description}
    run = client.create_run(
        experiment, start_time=record.started, tags=tags, run_name=record.name
    ).info.run_id
    metrics = [Metric(name, value, record.ended, step) for name, value, step in record.points()]
    client.log_batch(run, metrics, [Param(name, value) for name, value in record.params.items()])
    for path, file in record.artifacts.items():
        target = artifacts / run / "artifacts" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    client.set_tag(run, "content_hash", content_hash)
    client.set_terminated(run, end_time=record.ended)


@contextmanager
def _open(store: Path) -> Iterator[MlflowClient]:
    """Lock the store (two processes corrupt a fresh one), create or upgrade it, yield its client"""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    with exclusive(
        store.with_name(f".{store.name}.lock"),
        wait_seconds=_WAIT_SECONDS,
        what=f"the store {store}",
    ):
        try:
            yield _ready_client(store)
        except (
            MlflowException,
            SQLAlchemyError,
            sqlite3.Error,
            subprocess.CalledProcessError,
            OSError,
        ) as error:
            remedy = (
                "stop what else writes to it, make room and its folder writable, or move "
                f"{store.name} away"
            )
            if getattr(error, "error_code", "") == "INVALID_PARAMETER_VALUE":
                remedy = "change this name or value in the parameters"
            raise RecapError(
                f"{store}: MLflow refuses ({first_line(error)}); {remedy}, and run the same "
                "command again; no result is lost: the store is made from the result files"
            ) from error


def _ready_client(store: Path) -> MlflowClient:
    """Create the store atomically, or upgrade its tables to this MLflow's version.

    Return a client of it.
    """
    from mlflow.exceptions import MlflowException

    if not store.exists():
        with atomic_path(store) as fresh:
            _upgrade(fresh)
        return _client(store)
    # of a locked store, MLflow tries for long
    with closing(sqlite3.connect(store, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
    try:
        return _client(store)
    except MlflowException as error:
        try:
            _upgrade(store)
        except subprocess.CalledProcessError:
            raise error from None
        return _client(store)


def _upgrade(store: Path) -> None:
    """Create or upgrade the tables by MLflow's command."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "mlflow",
        "db",
        "upgrade",
        f"sqlite:///{store.resolve()}",
    ]
    subprocess.run(command, check=True, capture_output=True)


def _client(store: Path) -> MlflowClient:
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=f"sqlite:///{store.resolve()}")
