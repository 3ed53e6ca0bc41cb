"""Synchronises MLflow's store with the results of a profile."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from recap.core.documents import write_json
from recap.core.errors import RecapError, counted
from recap.core.log import log
from recap.plan.result_tables import read_tables
from recap.tracking.records import Record, read_runs
from recap.tracking.store import MARK, open_store
from recap.tracking.tables import describe_settings, table_record

if TYPE_CHECKING:
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

# MLflow accepts at most 1,000 metrics and 100 params per call.
METRIC_CHUNK = 1000
PARAM_CHUNK = 100
# Relative to the artifact folder of the server, so that a clone may be moved.
LOCATION = "mlflow-artifacts:/"


def publish(*, profile: str, results: Path, reports: Path, store: Path, out: Path) -> None:
    """Synchronise the store with the results of a profile, then write the keys of its runs to ``out``.

    A run is identified by its tag ``job_key`` and replaced if its files have changed; runs whose results no longer
    exist are removed. Runs of other profiles are not touched. Results without a finished run are an error, so that a
    mistyped folder removes nothing.
    """
    records = read_records(profile=profile, results=results, reports=reports)
    with open_store(store) as address:
        changed = _synchronise(address, store.parent / "artifacts", profile, records)
    write_json(out, {"runs": len(records), "keys": sorted(record.key for record in records), "store": store.name})
    log.info(f"mlflow: {changed} of {counted(len(records), 'run')} written to {store}")


def remove_runs(*, profile: str, store: Path) -> None:
    """Remove the runs of a profile from the store; those of other profiles are kept."""
    with open_store(store) as address:
        _synchronise(address, store.parent / "artifacts", profile, [])


def read_records(*, profile: str, results: Path, reports: Path) -> list[Record]:
    """Return the records of all finished runs and tables of a profile."""
    tables = read_tables(results)
    runs = read_runs(profile=profile, results=results, tables=tables, descriptions=describe_settings(tables))
    if not runs:
        raise RecapError(
            f"{results}: {'no finished run in this folder' if results.is_dir() else 'no such folder'}; "
            "nothing was published and nothing removed: run the profile first, or give the folder of its results"
        )
    return [*runs, *(table_record(profile=profile, table=table, results=results, reports=reports) for table in tables)]


def _synchronise(address: str, artifacts: Path, profile: str, records: list[Record]) -> int:
    """Create, replace and remove runs so that the store equals the records; return how many were written."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=address)
    experiments = {name: _experiment(client, name) for name in sorted({record.experiment for record in records})}
    known = _known_runs(client, profile)
    written = 0
    for record in records:
        run = known.pop(record.key, None)
        experiment = experiments[record.experiment]
        if run is not None:
            # The hash is written last, so that a run that was written in part is replaced.
            if run.data.tags.get("content_hash") == record.hash and run.info.experiment_id == experiment:
                continue
            client.delete_run(run.info.run_id)
        _create(client, experiment, record, artifacts)
        written += 1
    for run in known.values():
        client.delete_run(run.info.run_id)
    return written


def _experiment(client: MlflowClient, name: str) -> str:
    """Return the id of a data set's experiment; one that was deleted by hand is restored."""
    found = client.get_experiment_by_name(name)
    if found is not None and found.artifact_location != LOCATION:
        raise RecapError(
            f"experiment {name!r}: its files are in {found.artifact_location}, not in {LOCATION}, and that cannot be "
            "changed; rename it in MLflow, and run the same command again"
        )
    if found is None:
        return str(client.create_experiment(name, artifact_location=LOCATION, tags=MARK))
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    for key, value in MARK.items():
        if found.tags.get(key) != value:
            client.set_experiment_tag(found.experiment_id, key, value)
    return str(found.experiment_id)


def _known_runs(client: MlflowClient, profile: str) -> dict[str, Run]:
    """Return the profile's runs by key; of two with the same key (after a killed publish) only one is kept."""
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


def _create(client: MlflowClient, experiment: str, record: Record, artifacts: Path) -> None:
    """Write one run."""
    from mlflow.entities import Metric, Param

    tags = {**record.tags, "job_key": record.key, "mlflow.note.content": record.description}
    run = client.create_run(experiment, start_time=record.started, tags=tags, run_name=record.name)
    run_id = str(run.info.run_id)
    params = [Param(name, value) for name, value in record.params.items()]
    for start in range(0, len(params), PARAM_CHUNK):
        client.log_batch(run_id, params=params[start : start + PARAM_CHUNK])
    metrics = [Metric(name, value, record.ended, step) for name, value, step in record.points()]
    for start in range(0, len(metrics), METRIC_CHUNK):
        client.log_batch(run_id, metrics=metrics[start : start + METRIC_CHUNK])
    for path, file in record.artifacts.items():
        target = artifacts / run_id / "artifacts" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    client.set_tag(run_id, "content_hash", record.hash)
    client.set_terminated(run_id, end_time=record.ended)
