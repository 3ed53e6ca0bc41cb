"""The code of the MLflow model: the server runs this file,
and calls `predict` in several threads at a time."""

from __future__ import annotations

from contextlib import closing
from threading import Lock
from time import monotonic
from typing import Any

import mlflow
from mlflow.environment_variables import MLFLOW_SCORING_SERVER_REQUEST_TIMEOUT as TIMEOUT
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import BAD_REQUEST
from mlflow.pyfunc import PythonModel, PythonModelContext
from pandas import DataFrame

import recap
from recap.core.errors import RecapError
from recap.data.files.images import open_picture
from recap.share.captioner import FailedPhoto

MOST, MOST_PIXELS = 64, 100_000_000  # photos a request, and pixels of all of them


class CaptionModel(PythonModel):
    """Photos, each the content of a picture's file, to captions."""

    def load_context(self, context: PythonModelContext) -> None:
        """Load the run; a server that cannot does not start."""
        self._captioner = recap.load(context.artifacts["run"])
        self._one_at_a_time = Lock()  # the threads of the processor serve one search

    def predict(
        self, context: PythonModelContext, model_input: DataFrame, params: Any = None
    ) -> list[dict[str, Any]]:
        """Return caption and log-probability per row of `image`, or refuse the request (400)."""
        photos = list(model_input["image"])
        if len(photos) > MOST:
            raise MlflowException(
                f"{len(photos)} photos in one request; send at most {MOST}", BAD_REQUEST
            )
        # a string would be the path of a file here
        if not all(isinstance(photo, bytes) for photo in photos):
            raise MlflowException(
                "an image is no bytes; send the content of its file as base64 in JSON", BAD_REQUEST
            )
        pixels = sum(map(_pixels, photos))
        if pixels > MOST_PIXELS:
            raise MlflowException(
                f"{pixels / 1e6:.0f} megapixels in one request; send at most "
                f"{MOST_PIXELS // 10**6}",
                BAD_REQUEST,
            )
        end = monotonic() + TIMEOUT.get()
        answers: list[dict[str, Any]] = []
        try:
            with self._one_at_a_time, closing(self._captioner.stream(photos)) as results:
                for each in results:
                    # nobody waits for the answer, and others wait for the lock
                    if monotonic() > end:
                        raise MlflowException(
                            f"took longer than {TIMEOUT.name}; send fewer photos", BAD_REQUEST
                        )
                    if isinstance(each, FailedPhoto):
                        raise MlflowException(each.reason, BAD_REQUEST)
                    answers.append(
                        {"caption": each.caption, "log_probability": each.log_probability}
                    )
        except RecapError as error:
            raise MlflowException(str(error), BAD_REQUEST) from error
        return answers


def _pixels(photo: bytes) -> int:
    """Return how many pixels a picture says it has.

    Of what is no picture none, and reading it says why.
    """
    try:
        with open_picture(photo) as picture:
            return picture.width * picture.height
    except Exception:  # whatever Pillow meets in damaged data
        return 0


mlflow.models.set_model(CaptionModel())
