"""A run as an MLflow model: a folder with the exported run and the code that reads it, and no pickle."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from recap.captioning.hub import export_hub
from recap.core.errors import ConfigError

MODEL = Path(__file__).with_name("model.py")
RUN = "run"  # name of the artifact


def export_mlflow(
    run: Path,
    out: Path,
    *,
    params: Path,
    vocabulary: Path | None = None,
    features: Sequence[Path] = (),
    weights: Path | None = None,
) -> None:
    """Write a run as an MLflow model; arguments and errors as of `export_hub`."""
    from mlflow.models import ModelSignature
    from mlflow.pyfunc import save_model
    from mlflow.types import ColSpec, DataType, Schema

    if out.exists():
        raise ConfigError(f"{out}: is there already; name a new folder")
    signature = ModelSignature(
        inputs=Schema([ColSpec(DataType.binary, "image")]),
        outputs=Schema([ColSpec(DataType.string, "caption"), ColSpec(DataType.double, "log_probability")]),
    )
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    with TemporaryDirectory(prefix="recap-mlflow-") as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a signature is better with an example, which would cost a caption
        folder = Path(temporary) / RUN
        export_hub(run, folder, params=params, vocabulary=vocabulary, features=features, weights=weights)
        save_model(
            path=str(out),
            python_model=str(MODEL),  # its code: nothing is pickled
            artifacts={RUN: str(folder)},
            signature=signature,
            pip_requirements=[f"{name}=={version(name)}" for name in ("recap", "mlflow")],
        )
