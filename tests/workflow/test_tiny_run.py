"""The whole workflow for real, on twenty pictures: every file, nothing twice, and only what depends on a change."""

import json

import pytest
from tiny_workspace import Workspace


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Run the tiny profile once for all tests of this file."""
    workspace = Workspace(tmp_path_factory.mktemp("tiny"))
    done = workspace.snakemake()
    assert done.returncode == 0, done.stderr[-6000:]
    return workspace


@pytest.mark.timeout(600)
def test_it_ends_in_tables_pictures_and_a_published_view(finished):
    reports = finished.folder / "reports"
    for name in ("tables/tiny.tex", "tables/tiny.csv", "tables/tiny.md", "figures/tiny_captions.png"):
        assert (reports / name).stat().st_size > 0
    summary = json.loads((finished.folder / "results" / "tiny" / "summary.json").read_text())
    assert {key.rsplit(".", 1)[0] for key in summary} == {"tiny.transformer", "tiny.zodiac"}
    published = json.loads((finished.folder / "mlflow" / "tiny.published.json").read_text())
    assert published["runs"] == 2 + 3


def test_nothing_is_done_twice(finished):
    assert finished.planned() == {}


def test_a_changed_rate_reruns_only_what_depends_on_it(finished):
    finished.change("recipes/other.yaml", "2.0e-3", "3.0e-3")
    planned = finished.planned()
    finished.change("recipes/other.yaml", "3.0e-3", "2.0e-3")
    after = {"statistics", "table", "samples", "summary", "curves", "publish", "all"}
    assert planned == {"train_xe": 1, "evaluate": 1, **dict.fromkeys(after, 1)}


def test_a_deleted_view_is_made_again_from_the_results(finished):
    (finished.folder / "mlflow" / "tiny.published.json").unlink()
    assert finished.planned() == {"publish": 1, "all": 1}
