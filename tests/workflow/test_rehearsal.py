"""The short form of a rehearsal: the workflow of every paper,
from nothing, on miniatures of its outside files."""

from pathlib import Path

import pytest

from helpers.cases import cases
from recap.cli.options import SNAKEFILE
from recap.core.documents import adapter
from recap.core.errors import ConfigError
from recap.settings.kinds import VARIABLE
from rehearsal.rehearse import rehearse, summary

PARAMS = Path("params")
PAPERS = cases(["acf", "fusion", "visualgpt", "xlan", "zodiac"], few=["visualgpt", "xlan"])


@pytest.fixture(autouse=True)
def own_plugins(monkeypatch):
    """Leave other tests without the rehearsal's plug-in."""
    # is set by the rehearsal; other tests of this process go on without it
    monkeypatch.setenv(VARIABLE, "")
    adapter.cache_clear()  # and may have read settings without its plug-in


@pytest.fixture
def rehearsed(tmp_path):
    """Return the function that rehearses a paper in a folder of its own."""

    def run(paper, folder=tmp_path / "rehearsal"):
        return rehearse(
            paper, params=PARAMS, snakefile=SNAKEFILE, folder=folder, short=True, cores=2
        )

    return run


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("paper", PAPERS)
def test_every_rule_of_a_paper_runs_and_every_row_that_is_left_is_trained(rehearsed, paper):
    done = rehearsed(paper)
    assert done.run == done.planned and done.planned["train_xe"] and done.planned["table"]
    assert done.planned["select"] == (paper == "visualgpt")
    assert done.rows and all(min(row.steps) >= 2 for row in done.rows)
    reports = done.folder / "reports" / f"{paper}_paper"
    assert (
        list(reports.glob("tables/*.paper.tex"))
        and (reports / "figures" / "curves.png").stat().st_size
    )
    assert (reports / "report.html").stat().st_size
    assert (done.folder / "mlflow" / f"{paper}_paper.published.json").is_file()
    assert "numbers mean nothing" in next(reports.glob("tables/*.md")).read_text()
    said = summary(done)
    assert f"{len(done.planned)} of {len(done.planned)} rules run" in said
    assert ("no detector was tried" in said) == bool(done.stand_ins)
    assert "GPU" not in said


def test_a_folder_with_something_else_in_it_is_left_alone(rehearsed, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(
        ConfigError, match="is not empty, and no rehearsal is in it; name a new folder"
    ):
        rehearsed("acf", tmp_path / "mine")
    with pytest.raises(
        ConfigError, match="there is no paper 'acv' to rehearse; did you mean 'acf'"
    ):
        rehearsed("acv")
    assert not (tmp_path / "rehearsal").exists()
