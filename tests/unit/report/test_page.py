"""The one page of a profile: what it says while runs are missing, and that texts are escaped."""

import os
import shutil
from pathlib import Path

import pytest
from PIL import Image

from helpers.pages import Page
from helpers.refusals import refused
from helpers.report_results import HOSTILE, ReportFolder, write_claim
from recap.core import checksums
from recap.core.errors import RecapError
from recap.report.page import make_report
from recap.share.artifacts import problems

pytestmark = pytest.mark.seconds

PATH = os.environ["PATH"]


@pytest.fixture
def profile(tmp_path, monkeypatch):
    """A profile without results, on a machine without LaTeX."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return ReportFolder(tmp_path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        ReportFolder(folder).write_all()
    return folder


@pytest.fixture
def finished(profile, whole):
    """The profile with all its results."""
    shutil.copytree(whole, profile.folder, dirs_exist_ok=True)
    return profile


def page_of(profile):
    return Page(make_report(profile.plan()).read_text())


def test_a_report_before_any_training_says_so_of_every_row(profile):
    page = page_of(profile)
    trained, scored = len(profile.plan().trained), len(profile.plan().scored)
    assert f"Partial: 0 of {trained} trainings and 0 of {scored} evaluations finished" in page.text
    assert page.text.count("not run yet") >= scored
    assert "no row is scored yet" in page.text and "not read yet" in page.text


def test_a_partial_report_has_the_means_of_the_runs_that_are_finished(profile):
    plan = profile.plan()
    done = next(run for run in plan.scored if run.model == "transformer")
    profile.write_data()
    profile.write_scores(done)
    profile.write_training(plan.training_of(done), seconds=5400)
    page = page_of(profile)
    assert (
        f"Partial: 1 of {len(plan.trained)} trainings and 1 of {len(plan.scored)} evaluations"
        in page.text
    )
    assert "35.5" in page.text and "Preliminary" in page.text and "1.50 hours" in page.text
    assert "Photo of image" in " ".join(image.get("alt", "") for image in page.all("img"))


def test_a_whole_report_needs_no_other_file_and_runs_no_text_of_others(finished):
    write_claim(finished)
    figures = finished.folder / "reports" / "tiny" / "figures"
    figures.mkdir(parents=True)
    Image.new("RGB", (40, 30)).save(figures / "curves.png")
    text = make_report(finished.plan()).read_text()
    page = Page(text)
    assert "Partial" not in page.text and "Preliminary" not in page.text
    assert "Learning curves" in page.text and "c0ffee" in page.text and "ab" * 32 in page.text
    assert "mine.c1 (1): ZoDIAC wins" in page.text and page.text.count("Claims") >= 2
    assert "A comparison holds, or does not" in page.text and len(page.all("details")) >= 2
    assert "p, images" in page.text and "Signature: pycocoevalcap" in page.text
    images = page.all("img")
    assert len(images) > 2 and all(
        image["src"].startswith("data:image/") and image["alt"] for image in images
    )
    assert all(link["href"].startswith("#") for link in page.all("a")) and not page.all("link")
    assert len(page.all("script")) == 1 and HOSTILE not in text and "alert(" in page.text
    assert page.all("html")[0]["lang"] == "en"
    levels = [int(tag[1]) for tag, _ in page.tags if tag in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1 and all(
        after <= before + 1 for before, after in zip(levels, levels[1:], strict=False)
    )
    targets = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert {link["href"][1:] for link in page.all("a")} <= targets
    assert all(
        region.get("tabindex") == "0"
        for region in page.all("div")
        if region.get("class") == "scroll"
    )


def test_statistics_of_another_version_of_a_table_are_not_shown_as_its_own(finished):
    path = finished.folder / "params" / "tables" / "tiny.yaml"
    path.write_text(path.read_text().replace("baseline: transformer", "baseline: zodiac"))
    assert "its statistics are of an earlier version of the table" in page_of(finished).text


@pytest.mark.parametrize("file", ["statistics/tiny.json", "training.json"])
def test_a_damaged_file_is_refused_and_no_page_is_written(file, finished):
    path = next(Path("results").rglob(file.rpartition("/")[2]))
    path.write_text(path.read_text()[:-20])
    with refused(RecapError, str(path)):
        make_report(finished.plan())
    assert not Path("reports/tiny/report.html").exists()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_where_latex_is_installed_there_is_a_pdf_too_also_of_hostile_labels(
    finished, monkeypatch, capfd
):
    monkeypatch.setenv("PATH", PATH)
    make_report(finished.plan())
    assert Path("reports/tiny/report.pdf").read_bytes().startswith(b"%PDF"), capfd.readouterr().err
    assert not [each for each in problems(Path("reports/tiny")) if "report.pdf" in each]


@pytest.mark.parametrize(
    "program", [None, "#!/bin/sh\necho '! LaTeX Error: no booktabs.sty'\nexit 1\n"]
)
def test_without_latex_one_line_says_so_and_no_earlier_pdf_stays(program, profile, tmp_path, capfd):
    if program:
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/pdflatex").write_text(program)
        (tmp_path / "bin/pdflatex").chmod(0o755)
    earlier = tmp_path / "reports" / "tiny" / "report.pdf"
    earlier.parent.mkdir(parents=True)
    earlier.write_bytes(b"%PDF")
    checksums.record(earlier)
    make_report(profile.plan())
    output = capfd.readouterr().err
    assert ("no booktabs.sty" if program else "pdflatex is not installed") in output
    assert not earlier.exists() and earlier.with_suffix(".html").exists()
    assert not [each for each in problems(earlier.parent) if "report.pdf" in each]
