"""The pages of MLflow that show the runs: the kind of an experiment, and URLs of its run lists."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from recap.core.errors import RecapError
from recap.tracking.records import MAIN_METRIC
from recap.tracking.store import silence_mlflow, store_uri

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

KIND = {
    "mlflow.experimentKind": "custom_model_development",
    "mlflow.experiment.primaryMetric.name": MAIN_METRIC,
}
# The pages for model training, not those for generative AI; the list by score, with a chart of each score.
_QUERY = {
    "workflowType": "machine_learning",
    "orderByKey": f"metrics.`{MAIN_METRIC}`",
    "orderByAsc": "false",
    "compareRunsMode": "CHART",
}


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
    ids = {
        found.name: found.experiment_id for found in client.search_experiments() if KIND.items() <= found.tags.items()
    }
    return {name: f"http://127.0.0.1:{port}/#/experiments/{ids[name]}/runs?{urlencode(_QUERY)}" for name in sorted(ids)}
