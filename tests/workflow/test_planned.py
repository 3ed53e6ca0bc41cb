"""A job on a cluster takes the plan of the process that submitted it, and plans nothing again."""

import pytest

from helpers.tiny_workspace import Workspace
from recap.core.documents import read_mapping
from recap.plan import source
from recap.plan.load import load_plan
from recap.plan.outside import Acquired
from workflow import planned


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.chdir(Workspace(tmp_path).folder)
    return load_plan(read_mapping(tmp_path / "params" / "tiny.yaml"))


def test_a_job_has_the_runs_and_digests_of_the_process_that_planned_them(plan, monkeypatch):
    monkeypatch.setenv(planned.VARIABLE, "")
    key = (("somewhere:job",), ())
    monkeypatch.setattr(source, "_digests", {key: "0123456789abcdef"})
    nothing = Acquired()
    planned.pass_on(plan, nothing, {("a", "b", "c"): 7})
    monkeypatch.setattr(source, "_digests", {})
    found = planned.passed_on()
    assert found.plan.trained() == plan.trained() and found.plan.labels() == plan.labels()
    assert found.acquired == nothing and found.parameters == {("a", "b", "c"): 7}
    assert source.code_digest("somewhere:job") == "0123456789abcdef"  # there is no such module to read


def test_without_a_file_a_job_plans_by_itself(monkeypatch):
    monkeypatch.delenv(planned.VARIABLE, raising=False)
    assert planned.passed_on() is None
