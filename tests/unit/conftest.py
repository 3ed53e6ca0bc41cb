"""What many unit tests begin with."""

import shutil
from pathlib import Path

import pytest

from helpers.plans import PARAMS


@pytest.fixture
def no_java(monkeypatch):
    """Scorers do without Java, which takes a second to start."""
    monkeypatch.setattr("recap.metrics.scores.java_executable", lambda: None)


@pytest.fixture
def params(tmp_path):
    """A copy of the shipped parameters."""
    return Path(shutil.copytree(PARAMS, tmp_path / "params", copy_function=shutil.copyfile))
