"""Fixtures of the tests on a real Slurm."""

import signal

import pytest

from helpers.slurm_cluster import Cluster, missing
from helpers.slurm_workflow import Small


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A Slurm that runs until the last test that uses it."""
    if reason := missing():
        pytest.skip(reason)
    # of tests in the background it would be ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)
    made = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture
def small(tmp_path, cluster):
    """A folder with a workflow of a few jobs, which run on the cluster."""
    return Small(tmp_path, cluster)
