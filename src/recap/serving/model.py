"""The code of the MLflow model: the server runs this file, and calls `predict` in several threads at a time."""

from __future__ import annotations

from threading import Lock
from typing import Any

import mlflow
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import BAD_REQUEST
from mlflow.pyfunc import PythonModel, PythonModelContext
from pandas import DataFrame

import recap
from recap.core.errors import RecapError

MOST = 64  # photos a request


class CaptionModel(PythonModel):
    """Photos, each the content of a picture's file, to captions."""

    def load_context(self, context: PythonModelContext) -> None:
        """Load the run; a server that cannot does not start."""
        self._captioner = recap.load(context.artifacts["run"])
        self._one_at_a_time = Lock()  # the threads of the processor serve one search

    def predict(self, context: PythonModelContext, model_input: DataFrame, params: Any = None) -> list[dict[str, Any]]:
        """Return caption and log-probability of each row of the column `image`.

        Raises:
            MlflowException: a photo cannot be read, or there are too many; the server answers 400 with the sentence.
        """
        photos = list(model_input["image"])
        if len(photos) > MOST:
            raise MlflowException(f"{len(photos)} photos in one request; send at most {MOST}", BAD_REQUEST)
        try:
            with self._one_at_a_time:
                found = self._captioner.captions(photos)
        except RecapError as error:
            raise MlflowException(str(error), BAD_REQUEST) from error
        return [{"caption": each.caption, "log_probability": each.log_probability} for each in found]


mlflow.models.set_model(CaptionModel())
