"""A job on a cluster takes the plan of the process that submitted it, and plans nothing again."""

from helpers.tiny_workspace import Workspace
from recap.core.documents import read_mapping
from recap.plan import source
from recap.plan.outside import Acquired
from recap.plan.profiles import load_plan
from workflow import profile


def test_a_job_has_the_runs_and_digests_of_the_process_that_planned_them(tmp_path, monkeypatch):
    monkeypatch.chdir(Workspace(tmp_path).folder)
    monkeypatch.delenv(profile.VARIABLE, raising=False)
    assert profile.passed_on() is None
    plan = load_plan(read_mapping(tmp_path / "params" / "tiny.yaml"))
    monkeypatch.setenv(profile.VARIABLE, "")  # restored after the test
    job = ("somewhere:job",), ()
    monkeypatch.setitem(source.DIGESTS, job, "0123456789abcdef")
    profile.pass_on(profile.Planned(plan, Acquired(), {("a", "b", "c"): 7}, {}))
    del source.DIGESTS[job]
    planned = profile.passed_on()
    assert planned.plan.trained() == plan.trained() and planned.plan.labels() == plan.labels()
    assert planned.acquired == Acquired() and planned.parameters == {("a", "b", "c"): 7}
    assert source.code_digest("somewhere:job") == "0123456789abcdef"  # there is no such module to read
