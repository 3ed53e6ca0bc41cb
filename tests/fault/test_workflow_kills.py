"""A workflow that is killed again and again ends,
by the same command, with the files of one that never was."""

import random

import pytest

from helpers.workflow_kills import kill_until_finished, results, same, undisturbed


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_kills_change_no_byte_and_need_no_unlocking(tmp_path):
    random.seed(12)
    expected, seconds = undisturbed(tmp_path / "undisturbed")
    kinds = ["snakemake", "sigterm", "all", "job", "sigint", "sigint group", "snakemake"]
    kills = kill_until_finished(tmp_path / "killed", kinds, seconds / 7)
    assert len(kills) >= 4
    same(results(tmp_path / "killed"), expected)
