"""Fixtures that tests of more than one folder use."""

import os
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

from helpers import cases, mutate, prepared, tiny_results
from helpers.tiny_workspace import Workspace
from recap.core import log

ROOT = Path(__file__).parent
# folder -> marker
FOLDERS = {"unit": "unit", "parity": "unit", "workflow": "workflow", "fault": "fault"}


def pytest_configure():
    """Set what commands of tests inherit: torch computes in one thread, and Ctrl-C stops them."""
    os.environ["OMP_NUM_THREADS"] = "1"  # with two, models take four times the CPU time
    # A shell starts background processes with Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header():
    """Say how many cases long tests take."""
    others = "all cases" if cases.ALL else "some of their cases (RECAP_TESTS=all takes all)"
    return f"mutations: {mutate.COUNT:,} mutants of each file; simulations and rehearsals: {others}"


def pytest_collection_modifyitems(items):
    """Mark tests by their folder, begin with the longest files,
    and skip those for a GPU where there is none."""
    for item in items:
        item.add_marker(FOLDERS[item.path.relative_to(ROOT).parts[0]])
    # Whole files: the order of the tests in one stays, because some share
    # what a fixture made and change it. The workflow comes first, files
    # with few tests last, so that no worker is left with a long one.
    smoke, slow = (
        {item.path for item in items if item.get_closest_marker(mark)} for mark in ("smoke", "slow")
    )
    sizes = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in smoke, item.path not in slow, -sizes[item.path]))
    on_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if on_gpu and not gpu_available():
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason="torch sees no GPU on this machine"))


def gpu_available():
    import torch

    return torch.cuda.is_available()


@pytest.fixture(autouse=True, scope="session")
def messages():
    """Let messages reach standard error, as the command line does."""
    log.configure()


@pytest.fixture
def workspace(tmp_path):
    """A folder with the tiny parameters, in which the repository's Snakefile runs."""
    return Workspace(tmp_path)


@pytest.fixture(scope="session")
def prepare(tmp_path_factory):
    """Return a function that makes a folder with a corpus of 30 scenes and all that training
    needs."""
    return lambda without=(): prepared.prepare(tmp_path_factory.mktemp("prepared"), without)


@pytest.fixture
def tiny_model():
    """The settings of the model that is trained unless a test says otherwise."""
    return prepared.MODEL


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    """The results of a tiny profile, from scenes to scores; tests leave them as they are."""
    return tiny_results.make_results(tmp_path_factory.mktemp("results") / "tiny")


@pytest.fixture(scope="session")
def photos(results):
    """The pictures of its test split: image id -> path."""
    return results.photos()


@pytest.fixture
def photo(photos):
    """One of them."""
    return next(iter(photos.values()))


@pytest.fixture(scope="session")
def captioner(results):
    """Its run, ready for photos."""
    import recap

    return recap.load(results.run, device="cpu")


@pytest.fixture(scope="session")
def empty_mlflow_store(tmp_path_factory):
    """A store of MLflow without a run: making one takes seconds, copying it does not."""
    from recap.share.tracking_store import init_store

    store = tmp_path_factory.mktemp("empty") / "mlflow.db"
    init_store(store)
    return store


@pytest.fixture
def mlflow_store(tmp_path, empty_mlflow_store):
    """A store of MLflow that a test may write to."""
    (tmp_path / "mlflow").mkdir()
    return Path(shutil.copy(empty_mlflow_store, tmp_path / "mlflow" / "mlflow.db"))
