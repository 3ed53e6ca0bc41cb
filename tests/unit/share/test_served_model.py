"""A run as an MLflow model: `mlflow models serve` answers photos,
several at a time, and refuses what is no photo."""

import base64
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import numpy
import pytest
from mlflow.exceptions import MlflowException
from pandas import DataFrame
from PIL import Image

from recap.cli import main

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served") / "model"
    main(["export", "mlflow", str(results.folder), "--out", str(folder)])
    return folder


@pytest.fixture(scope="module")
def address(model):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "models",
        "serve",
        "-m",
        str(model),
        "--env-manager",
        "local",
    ]
    server = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port), "--workers", "1"],
        env={**os.environ, "PATH": path},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                urlopen(f"{url}/ping")
                break
            except URLError:
                assert server.poll() is None
                time.sleep(0.2)
        yield f"{url}/invocations"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()


def asked(url, *photos):
    records = [{"image": base64.b64encode(photo).decode()} for photo in photos]
    return sent(url, json.dumps({"dataframe_records": records}).encode(), "application/json")


def sent(url, body, kind):
    try:
        with urlopen(Request(url, body, {"Content-Type": kind})) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        return error.code, json.loads(error.read())


def test_nothing_of_the_model_is_pickled(model):
    assert not [
        path for path in model.rglob("*") if path.suffix in (".pkl", ".pickle", ".pt", ".pth")
    ]


@pytest.mark.timeout(600)
def test_photos_are_answered_eight_at_a_time(address, photos, captioner):
    expected = {path: captioner(path) for path in photos.values()}
    wanted = [*expected] * 6
    with ThreadPoolExecutor(8) as several:
        answers = list(several.map(lambda path: asked(address, path.read_bytes()), wanted))
    for path, (status, answer) in zip(wanted, answers, strict=True):
        assert status == 200 and answer["predictions"][0]["caption"] == expected[path]
    status, answer = asked(address, *(path.read_bytes() for path in expected))
    assert [each["caption"] for each in answer["predictions"]] == [*expected.values()]


@pytest.mark.timeout(600)
def test_what_is_no_photo_is_refused_in_a_sentence(address):
    for photos, sentence in (
        ([b"no picture"], "photo 1: no picture that is read here"),
        ([b""], "photo 1: the file is empty"),
        ([b"x"] * 65, "65 photos in one request; send at most 64"),
    ):
        status, answer = asked(address, *photos)
        assert (
            status == 400
            and sentence in answer["message"]
            and "Traceback" not in json.dumps(answer)
        )


@pytest.mark.timeout(600)
def test_a_string_is_no_path_of_the_servers_disk(address, photos, tmp_path):
    tables = [
        DataFrame({"image": [str(path)]})
        for path in (next(iter(photos.values())), tmp_path / "none")
    ]
    for kind in ("text/csv", "application/vnd.apache.parquet"):
        bodies = [
            table.to_csv(index=False).encode() if kind == "text/csv" else table.to_parquet()
            for table in tables
        ]
        answers = [sent(address, body, kind) for body in bodies]
        assert [status for status, _ in answers] == [400, 400]
        assert len({answer["message"].rpartition("Error")[2] for _, answer in answers}) == 1


@pytest.fixture
def served(captioner):
    """The model of the server, in this process."""
    from recap.share.served_model import CaptionModel

    served = CaptionModel()
    served._captioner, served._one_at_a_time = captioner, Lock()
    return served


def test_only_bytes_are_photos_and_they_have_so_many_pixels(served, photos, captioner):
    path = next(iter(photos.values()))
    (answer,) = served.predict(None, DataFrame({"image": [path.read_bytes()]}))
    assert answer["caption"] == captioner(path)
    large = io.BytesIO()
    Image.new("1", (8000, 6500)).save(large, "PNG")
    for images in (
        [str(path)],
        [path],
        [numpy.zeros((8, 8, 3), "uint8")],
        [None],
        [large.getvalue()] * 2,
    ):
        with pytest.raises(MlflowException) as error:
            served.predict(None, DataFrame({"image": images}))
        assert error.value.get_http_status_code() == 400 and str(path) not in error.value.message


def test_a_request_that_nobody_waits_for_gives_way(served, photos, monkeypatch):
    monkeypatch.setenv("MLFLOW_SCORING_SERVER_REQUEST_TIMEOUT", "0")
    with pytest.raises(MlflowException):
        served.predict(None, DataFrame({"image": [path.read_bytes() for path in photos.values()]}))
    assert not served._one_at_a_time.locked()
