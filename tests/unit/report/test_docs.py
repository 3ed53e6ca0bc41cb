"""Pages of docs come from statistics alone, beside at most a paragraph of prose."""

from pathlib import Path

import pytest

from helpers.refusals import refused
from helpers.report_results import ReportFolder, write_claim
from recap.core.errors import DataError
from recap.report.docs import EARLIER, write_docs

pytestmark = pytest.mark.seconds


@pytest.fixture
def profile(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return ReportFolder(tmp_path)


def test_a_page_has_every_finished_table_with_seeds_signature_and_verdicts(profile):
    profile.write_all()
    write_claim(profile)
    page = write_docs("tiny", [profile.plan()], Path("docs/results")).read_text()
    lines = page.splitlines()
    assert lines[0] == "# Results of tiny" and "recap report docs tiny --into docs/results" in page
    headings = ["## Without a scale", "### Two models on twenty scenes", "### Claims of the paper"]
    assert [line for line in lines if line.startswith("#")][1:] == headings
    assert "| Transformer " in page and "35.5" in page and "45.5" in page
    assert "One seed (1)" in page and "Signature: `pycocoevalcap" in page and "mine.c1" in page
    assert "<script" not in page.replace("&lt;", "")


def test_what_is_not_finished_is_left_out_and_named(profile):
    page = write_docs("tiny", [profile.plan()], Path("docs/results")).read_text()
    assert "Left out until its runs are finished: Two models on twenty scenes." in page and "| Transformer" not in page


def test_one_paragraph_of_prose_is_taken_and_more_is_refused(profile):
    prose = Path("docs/prose/tiny.md")
    prose.parent.mkdir(parents=True)
    prose.write_text("The second model\nis better.\n")
    scales = [profile.plan()]
    assert "\nThe second model is better.\n" in write_docs("tiny", scales, Path("docs")).read_text()
    for more in ("One.\n\nTwo.\n", "# A heading\nand text", "| a | b |\n"):
        prose.write_text(more)
        with refused(DataError, prose):
            write_docs("tiny", scales, Path("docs"))


def test_what_is_kept_of_earlier_runs_ends_the_page_and_says_so(profile):
    kept = Path("docs/prose/tiny_earlier.md")
    kept.parent.mkdir(parents=True)
    kept.write_text("### On scenes\n\n| a |\n|---|\n| 1.5 |\n")
    page = write_docs("tiny", [profile.plan()], Path("docs")).read_text()
    assert page.endswith(f"\n## Earlier runs\n\n{EARLIER}\n\n{kept.read_text()}")
    kept.unlink()
    assert "Earlier" not in write_docs("tiny", [profile.plan()], Path("docs")).read_text()
