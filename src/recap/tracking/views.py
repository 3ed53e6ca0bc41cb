"""The pages of MLflow that list the runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from recap.core.errors import RecapError
from recap.tracking.store import silence_mlflow, store_uri

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

# Marks the experiments that are made from results.
MARK = {"recap": "runs"}


def run_list_urls(*, store: Path, port: int) -> dict[str, str]:
    """Return the URL of every experiment's run list, by the name of the experiment.

    Args:
        store: the SQLite file.
        port: of the server on this machine.

    Raises:
        RecapError: there is no store yet, or nothing was published.
    """
    if not store.exists():
        raise RecapError(f"{store}: nothing has been published yet; run a profile first, e.g. `make demo`")
    silence_mlflow()
    from mlflow.tracking import MlflowClient

    client: MlflowClient = MlflowClient(tracking_uri=store_uri(store))
    found = [each for each in client.search_experiments() if MARK.items() <= each.tags.items()]
    return {each.name: f"http://127.0.0.1:{port}/#/experiments/{each.experiment_id}" for each in found}
