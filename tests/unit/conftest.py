"""What many unit tests begin with."""

import shutil
from pathlib import Path

import pytest

from helpers.plans import PARAMS


@pytest.fixture
def params(tmp_path):
    """A copy of the shipped parameters."""
    return Path(shutil.copytree(PARAMS, tmp_path / "params", copy_function=shutil.copyfile))
