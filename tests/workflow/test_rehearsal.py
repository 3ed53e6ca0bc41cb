"""The short form of a rehearsal: the workflow of every paper, from nothing, on miniatures of its outside files."""

from pathlib import Path

import pytest

from recap.cli.options import SNAKEFILE
from recap.core.documents import adapter
from recap.core.errors import ConfigError
from recap.settings.kinds import VARIABLE
from rehearsal.acquisition import rehearse_faults
from rehearsal.faults import FAULTS
from rehearsal.rehearse import rehearse
from rehearsal.summary import summary

PARAMS = Path("params")
PAPERS = ("acf", "fusion", "visualgpt", "xlan", "zodiac")
# Papers whose files come from a misbehaving server first; and the stage beside `fetch` in which the workflow is killed.
FAULTS_FIRST = {"visualgpt": ("unpack", "web pictures"), "xlan": ("unpack",)}


@pytest.fixture(autouse=True)
def own_plugins(monkeypatch):
    """Leave other tests without the rehearsal's plug-in."""
    monkeypatch.setenv(VARIABLE, "")  # is set by the rehearsal; other tests of this process go on without it
    adapter.cache_clear()  # and may have read settings without its plug-in


@pytest.fixture
def rehearsed(tmp_path):
    """Return the function that rehearses a paper in a folder of its own."""

    def run(paper, folder=tmp_path / "rehearsal"):
        return rehearse(paper, params=PARAMS, snakefile=SNAKEFILE, folder=folder, short=True, cores=2)

    return run


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("paper", PAPERS)
def test_every_rule_of_a_paper_runs_and_every_row_that_is_left_is_trained(rehearsed, tmp_path, paper):
    if paper in FAULTS_FIRST:
        check_faults(paper, tmp_path / "rehearsal", stages=FAULTS_FIRST[paper])
    done = rehearsed(paper)
    assert done.run == done.planned and done.planned["train_xe"] and done.planned["table"]
    assert done.planned["select"] == (paper == "visualgpt")
    assert done.rows and all(min(row.steps) >= 2 for row in done.rows)
    reports = done.folder / "reports" / f"{paper}_paper"
    assert list(reports.glob("tables/*.paper.tex")) and (reports / "figures" / "curves.png").stat().st_size
    assert (reports / "report.html").stat().st_size
    assert (done.folder / "mlflow" / f"{paper}_paper.published.json").is_file()
    assert "numbers mean nothing" in next(reports.glob("tables/*.md")).read_text()
    said = summary(done)
    assert f"{len(done.planned)} of {len(done.planned)} rules run" in said
    assert ("no detector was tried" in said) == bool(done.stand_ins)
    assert ("\n  SIGKILL in fetch | " in said) == (paper in FAULTS_FIRST)
    assert "GPU" not in said


def check_faults(paper, folder, *, stages):
    """Each fault heals or is one sentence, and the rest is fetched later; ``stages`` are killed beside the fetch."""
    played = rehearse_faults(paper, params=PARAMS, snakefile=SNAKEFILE, folder=folder, short=True, cores=2)
    said = {each.fault: each.said for each in played}
    kills = {f"SIGKILL in {stage}" for stage in ("fetch", *stages, "SPICE's models")}
    assert said.keys() == {*(fault.name for fault in FAULTS), *kills}
    healed = {fault.name for fault in FAULTS if fault.heals}
    assert {name for name, sentence in said.items() if sentence == "healed by itself"} == healed
    assert "answered 403 Forbidden" in said["403"] and "its sha256 is" in said["wrong bytes"]
    assert "truncated or damaged" in said["truncated archive"] or "File is not a zip" in said["truncated archive"]
    assert "holds the unsafe name '../../evil'" in said["member ../../evil"]


def test_a_folder_with_something_else_in_it_is_left_alone(rehearsed, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is not empty, and no rehearsal is in it; name a new folder"):
        rehearsed("acf", tmp_path / "mine")
    with pytest.raises(ConfigError, match="there is no paper 'acv' to rehearse; did you mean 'acf'"):
        rehearsed("acv")
    assert not (tmp_path / "rehearsal").exists()
