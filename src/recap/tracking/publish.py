"""Brings MLflow's store in line with the results of a profile."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recap.core.errors import RecapError
from recap.core.files.atomic import write_json
from recap.core.log import log
from recap.tracking.records import Record, read_runs
from recap.tracking.store import opened
from recap.tracking.tables import describe_settings, read_tables, table_record
from recap.tracking.views import experiment_tags

if TYPE_CHECKING:
    from mlflow.entities import Experiment, Run
    from mlflow.tracking import MlflowClient

# MLflow takes at most 1,000 metrics and 100 params a call.
METRIC_CHUNK = 1000
PARAM_CHUNK = 100
# Relative to the folder that the server is given, so that a clone may move.
LOCATION = "mlflow-artifacts:/"


def publish(*, profile: str, results: Path, reports: Path, store: Path, out: Path) -> None:
    """Bring the store in line with the results of a profile, then write what was done to ``out``.

    A run is recognised by its tag ``job_key`` and replaced if what it was made from has changed; runs whose results are
    gone are removed. Runs of other profiles are left alone. Results without a single finished run are an error, so that
    a mistyped folder removes nothing.

    Args:
        profile: name of the profile.
        results: the folder ``results/<profile>``.
        reports: the folder ``reports/<profile>`` with tables and figures.
        store: the SQLite file; made if it is missing. Artifacts lie beside it in ``artifacts``.
        out: a JSON with the number of runs and their keys.

    Raises:
        RecapError: there are no results, one of them is broken, or the store cannot be written or is no MLflow store.
    """
    records = read_records(profile=profile, results=results, reports=reports)
    with opened(store) as address:
        changed = _synchronise(address, store.parent / "artifacts", profile, records)
    write_json(out, {"runs": len(records), "keys": sorted(record.key for record in records), "store": store.name})
    log.info(f"mlflow: {changed} of {len(records)} runs written to {store}")


def withdraw(*, profile: str, store: Path) -> None:
    """Remove the runs of a profile from the store; those of others stay.

    Raises:
        RecapError: the store cannot be written or is no MLflow store.
    """
    with opened(store) as address:
        _synchronise(address, store.parent / "artifacts", profile, [])


def read_records(*, profile: str, results: Path, reports: Path) -> list[Record]:
    """Return the records of all finished runs and tables of a profile.

    Raises:
        RecapError: there is no finished run, or a file is broken.
    """
    tables = read_tables(results)
    runs = read_runs(profile=profile, results=results, descriptions=describe_settings(tables))
    if not runs:
        raise RecapError(
            f"{results}: {'no finished run in this folder' if results.is_dir() else 'no such folder'}; "
            "nothing was published and nothing removed: run the profile first, or give the folder of its results"
        )
    return [*runs, *(table_record(profile=profile, table=table, results=results, reports=reports) for table in tables)]


def _synchronise(address: str, artifacts: Path, profile: str, records: list[Record]) -> int:
    """Create, replace and remove runs until the store shows the records; return how many were written."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=address)
    experiments = {name: _experiment(client, name) for name in sorted({record.experiment for record in records})}
    known = _known_runs(client, profile)
    written = 0
    for record in records:
        run = known.pop(record.key, None)
        if run is not None and _shows(run, record, experiments[record.experiment]):
            continue
        if run is not None:
            client.delete_run(run.info.run_id)
        _create(client, experiments[record.experiment], record, artifacts)
        written += 1
    for run in known.values():
        client.delete_run(run.info.run_id)
    _remove_emptied(client)
    return written


def _shows(run: Run, record: Record, experiment: str) -> bool:
    """Return whether a run is the record, whole and in its place."""
    return run.data.tags.get("content_hash") == record.hash and run.info.experiment_id == experiment


def _experiment(client: MlflowClient, name: str) -> str:
    """Return the id of a data set's experiment; one that was deleted by hand is restored.

    One whose artifacts lie below an absolute path gives its name to a new one: the path cannot be changed.
    """
    found = client.get_experiment_by_name(name)
    if found is not None and found.artifact_location != LOCATION:
        client.rename_experiment(found.experiment_id, f"{name}{_earlier(found)}")
        found = None
    if found is None:
        return str(client.create_experiment(name, artifact_location=LOCATION, tags=experiment_tags()))
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    for key, value in experiment_tags().items():
        if found.tags.get(key) != value:
            client.set_experiment_tag(found.experiment_id, key, value)
    return str(found.experiment_id)


def _earlier(experiment: Experiment) -> str:
    """Return how the name of an experiment ends that has given its name away."""
    return f" (earlier, {experiment.experiment_id})"


def _remove_emptied(client: MlflowClient) -> None:
    """Remove experiments that have given their name away and whose runs have all been published anew."""
    for experiment in client.search_experiments():
        emptied = not client.search_runs([experiment.experiment_id], max_results=1)
        if emptied and experiment.name.endswith(_earlier(experiment)):
            client.delete_experiment(experiment.experiment_id)


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


def _create(client: MlflowClient, experiment: str, record: Record, artifacts: Path) -> None:
    """Write one run; the content hash comes last, so that half a run is replaced next time."""
    from mlflow.entities import Metric, Param

    tags = {**record.tags, "job_key": record.key, "mlflow.note.content": record.description}
    run = client.create_run(experiment, start_time=record.started, tags=tags, run_name=record.name)
    run_id = str(run.info.run_id)
    for chunk in _chunks([Param(name, value) for name, value in record.params.items()], PARAM_CHUNK):
        client.log_batch(run_id, params=chunk)
    for chunk in _chunks(
        [Metric(name, value, record.ended, step) for name, value, step in record.points()], METRIC_CHUNK
    ):
        client.log_batch(run_id, metrics=chunk)
    for where, file in record.artifacts.items():
        target = artifacts / run_id / "artifacts" / where
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    client.set_tag(run_id, "content_hash", record.hash)
    client.set_terminated(run_id, end_time=record.ended)


def _chunks(items: list[Any], size: int) -> Iterable[list[Any]]:
    """Yield the items in lists of at most ``size``."""
    return (items[start : start + size] for start in range(0, len(items), size))
