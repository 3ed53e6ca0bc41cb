"""Saved views of MLflow's run list (columns, order, grouping), and URLs that open them.

MLflow stores a view as a tag of the experiment; its menu "Views" lists them, and a URL may name one. Whether it shows
the pages for model training or for generative AI is part of the URL only.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from recap.core.errors import RecapError
from recap.tracking.records import MAIN_METRIC
from recap.tracking.store import silence_mlflow, store_uri

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

_VIEW_TAG = "mlflow.sharedViewState."
_RUN_NAME, _CREATED, _DURATION = "attributes.`Run Name`", "runDateAndNestInfo", "duration"
# Columns from left to right, with their widths in pixels.
_COLUMNS = {
    _RUN_NAME: 240,
    "tags.`model`": 160,
    "tags.`stage`": 70,
    "tags.`seed`": 70,
    f"metrics.`{MAIN_METRIC}`": 110,
    "metrics.`BLEU-1`": 110,
    "metrics.`BLEU-4`": 110,
    "metrics.`METEOR`": 110,
    "metrics.`ROUGE-L`": 110,
    "metrics.`SPICE`": 110,
    "metrics.`best_val_cider_d`": 130,
    "tags.`subset`": 110,
    "tags.`features`": 150,
    "tags.`recipe`": 130,
    _DURATION: 90,
    _CREATED: 130,
}
_ALWAYS = (_RUN_NAME, _CREATED, _DURATION)
_GROUPS = ("model", "recipe", "features", "subset", "stage", "recap_profile")
_MEANS = {
    "aggregateFunction": "average",
    "groupByKeys": [{"mode": "tag", "groupByData": name} for name in _GROUPS],
}


def experiment_tags() -> dict[str, str]:
    """Return the tags of an experiment that set up its pages."""
    return {
        "mlflow.experimentKind": "custom_model_development",
        "mlflow.experiment.primaryMetric.name": MAIN_METRIC,
        f"{_VIEW_TAG}runs": _saved_view("Runs", 1, groupBy=None),
        f"{_VIEW_TAG}means": _saved_view("Means over seeds", 2, groupBy=_MEANS),
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
    ids = {found.name: found.experiment_id for found in client.search_experiments() if f"{_VIEW_TAG}runs" in found.tags}
    query = urlencode({"workflowType": "machine_learning", "viewStateShareKey": "runs"})
    return {name: f"http://127.0.0.1:{port}/#/experiments/{ids[name]}/runs?{query}" for name in sorted(ids)}


def _saved_view(name: str, created: int, **changes: Any) -> str:
    """Return a view as MLflow saves it; ``created`` orders the views in its menu."""
    state = {
        "selectedColumns": [column for column in _COLUMNS if column not in _ALWAYS],
        "columnOrder": list(_COLUMNS),
        "columnWidths": _COLUMNS,
        "orderByKey": f"metrics.`{MAIN_METRIC}`",
        "orderByAsc": False,
        **changes,
    }
    return json.dumps({"name": name, "createdAt": created, "state": json.dumps(state)})
