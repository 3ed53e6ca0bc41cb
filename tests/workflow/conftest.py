"""Fixtures of the workflow tests."""

import pytest
from tiny_workspace import Workspace


@pytest.fixture
def workspace(tmp_path):
    return Workspace(tmp_path)
