"""The view of all runs in MLflow: made from the files that jobs wrote, so that deleting it loses nothing.

Training and scoring never import this module: no run depends on a tracking service being well.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from recap.core.atomic import atomic_path, write_json
from recap.core.errors import TrainingError
from recap.core.log import say
from recap.training.journal import Record, read_records

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

# MLflow takes at most 1,000 metrics and 100 params a call.
METRIC_CHUNK = 1000
PARAM_CHUNK = 100


def init_store(store: Path) -> None:
    """Make or upgrade the SQLite store, one process at a time; a store that is up to date stays as it is.

    Processes that meet in a fresh store break it for good, hence the lock.

    Raises:
        TrainingError: the store cannot be written or is no MLflow store.
    """
    with _locked(store), _explained(store):
        _upgrade(store)


def publish(*, profile: str, results: Path, store: Path, out: Path) -> None:
    """Bring the store in line with the results of a profile, then write what was done to ``out``.

    A run is recognised by its tag ``job_key`` and replaced if what it was made from has changed; runs whose results are
    gone are removed. Runs of other profiles are left alone.

    Args:
        profile: name of the profile.
        results: the folder ``results/<profile>``.
        store: the SQLite file; made if it is missing.
        out: a JSON with the number of runs and their keys.

    Raises:
        TrainingError: a result file is broken, or the store cannot be written or is no MLflow store.
    """
    records = read_records(profile=profile, results=results)
    with _locked(store), _explained(store):
        _upgrade(store)
        changed = _synchronise(store, profile, records)
    write_json(out, {"runs": len(records), "keys": sorted(record.key for record in records), "store": store.name})
    say(f"mlflow: {changed} of {len(records)} runs written to {store}")


def withdraw(*, profile: str, store: Path) -> None:
    """Remove the runs of a profile from the store; those of others stay.

    Raises:
        TrainingError: the store cannot be written or is no MLflow store.
    """
    with _locked(store), _explained(store):
        _upgrade(store)
        _synchronise(store, profile, [])


@contextmanager
def _locked(store: Path) -> Iterator[None]:
    """Hold the lock file beside the store; whoever comes second waits."""
    lock = store.with_name(f".{store.name}.lock")
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("w")
    except OSError as error:
        raise TrainingError(f"{store}: cannot be written ({error.strerror}); make its folder writable") from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _explained(store: Path) -> Iterator[None]:
    """Turn whatever the store refuses into one sentence; results do not depend on it."""
    _quiet()
    from alembic.util.exc import CommandError
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, SQLAlchemyError, CommandError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise TrainingError(
            f"{store}: MLflow cannot use this store ({reason}); all results are safe: delete the folder "
            f"{store.parent}, or make it writable, and run the same command again"
        ) from error


def _quiet() -> None:
    """Keep MLflow from reporting usage and from writing every migration step on the console."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    logging.getLogger("alembic").setLevel(logging.WARNING)


def _uri(store: Path) -> str:
    return f"sqlite:///{store.resolve()}"


def _upgrade(store: Path) -> None:
    """Make the store, whole or not at all, or bring its tables to this MLflow's version."""
    from mlflow.db import upgrade

    if store.exists():
        upgrade.main(args=[_uri(store)], standalone_mode=False)
        return
    with atomic_path(store) as fresh:
        upgrade.main(args=[_uri(fresh)], standalone_mode=False)


def _synchronise(store: Path, profile: str, records: list[Record]) -> int:
    """Create, replace and remove runs until the store shows the records; return how many were written."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=_uri(store))
    experiments = {name: _experiment(client, name, store) for name in {record.experiment for record in records}}
    known = _known_runs(client, profile)
    ids: dict[str, str] = {}
    written = 0
    for record in records:
        parent = ids.get(record.parent) if record.parent else None
        run = known.pop(record.key, None)
        if run is not None and run.data.tags.get("content_hash") == record.hash:
            ids[record.key] = run.info.run_id
            if parent and run.data.tags.get("mlflow.parentRunId") != parent:
                client.set_tag(run.info.run_id, "mlflow.parentRunId", parent)
            continue
        if run is not None:
            client.delete_run(run.info.run_id)
        ids[record.key] = _create(client, experiments[record.experiment], record, parent)
        written += 1
    for run in known.values():
        client.delete_run(run.info.run_id)
    return written


def _experiment(client: MlflowClient, name: str, store: Path) -> str:
    """Return the id of a data set's experiment; one that was deleted by hand is restored."""
    found = client.get_experiment_by_name(name)
    if found is None:
        location = (store.resolve().parent / "artifacts").as_uri()
        return str(client.create_experiment(name, artifact_location=location))
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return str(found.experiment_id)


def _known_runs(client: MlflowClient, profile: str) -> dict[str, Run]:
    """Return the profile's runs by key; of two with one key (a publish that was killed) only one stays."""
    ids = [experiment.experiment_id for experiment in client.search_experiments()]
    known: dict[str, Run] = {}
    token = None
    while True:
        page = client.search_runs(ids, f"tags.recap_profile = '{profile}'", max_results=1000, page_token=token)
        for run in page:
            if run.data.tags["job_key"] in known:
                client.delete_run(run.info.run_id)
            else:
                known[run.data.tags["job_key"]] = run
        token = page.token
        if not token:
            return known


def _create(client: MlflowClient, experiment: str, record: Record, parent: str | None) -> str:
    """Write one run and return its id; the content hash comes last, so that half a run is replaced next time."""
    from mlflow.entities import Metric, Param

    tags = {**record.tags, "job_key": record.key}
    if parent:
        tags["mlflow.parentRunId"] = parent
    run = client.create_run(experiment, start_time=record.started, tags=tags, run_name=record.name)
    run_id = str(run.info.run_id)
    params = [Param(name, value) for name, value in record.params.items()]
    metrics = [Metric(name, value, record.ended, step) for name, value, step in record.points()]
    for start in range(0, len(params), PARAM_CHUNK):
        client.log_batch(run_id, params=params[start : start + PARAM_CHUNK])
    for start in range(0, len(metrics), METRIC_CHUNK):
        client.log_batch(run_id, metrics=metrics[start : start + METRIC_CHUNK])
    for path in record.artifacts:
        client.log_artifact(run_id, str(path))
    client.set_tag(run_id, "content_hash", record.hash)
    client.set_terminated(run_id, end_time=record.ended)
    return run_id
