"""Fixtures that tests of more than one folder use."""

import pytest

from helpers import prepared
from helpers.tiny_workspace import Workspace


@pytest.fixture
def workspace(tmp_path):
    """A folder with the tiny parameters, in which the repository's Snakefile runs."""
    return Workspace(tmp_path)


@pytest.fixture(scope="session")
def prepare(tmp_path_factory):
    """Return a function that makes a folder with a corpus of 30 scenes and all that training needs."""
    return lambda without=(): prepared.prepare(tmp_path_factory.mktemp("prepared"), without)


@pytest.fixture
def tiny_model():
    """The settings of the model that is trained unless a test says otherwise."""
    return prepared.MODEL
