"""`recap artifacts`: one profile is removed after asking, and push and pull say what is missing."""

import hashlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import refusals
from helpers.commands import refused_command
from helpers.tiny_workspace import ROOT
from recap.cli import main
from recap.core.documents import read_mapping
from recap.core.errors import ConfigError, DataError
from recap.plan import source
from recap.plan.source import EVALUATION, TRAINING
from recap.settings.metrics import METRICS
from recap.settings.models import MODELS
from recap.share import dvc
from recap.share.dvc import (
    LISTINGS,
    listed_files,
    outputs,
    read_listings,
    read_profiles,
)

pytestmark = pytest.mark.seconds

PROFILES = (
    "profiles: "
    "{mine: {options: --configfile params/mine.yaml}, yours: {options: --configfile params/y.yaml}}"
)
PAPER = "name: paper\nscales: {small: {tables: [t]}, big: {tables: [t]}}\n"
FOLDER = "results/mine/data"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A working folder with the results of two profiles, and the parameters of a paper."""
    monkeypatch.chdir(tmp_path)
    for profile in ("mine", "yours"):
        for room in ("results", "reports", "work"):
            (tmp_path / room / profile).mkdir(parents=True)
            (tmp_path / room / profile / "file").write_text("x")
        (tmp_path / "mlflow").mkdir(exist_ok=True)
        (tmp_path / "mlflow" / f"{profile}.published.json").write_text("{}")
    (tmp_path / "params").mkdir()
    (tmp_path / "params" / "paper.yaml").write_text(PAPER)
    return tmp_path


def files(project):
    return {str(file.relative_to(project)) for file in project.rglob("*") if file.is_file()}


def refused(capsys, *arguments):
    return refused_command(capsys, "artifacts", *arguments)


@pytest.mark.parametrize("answer", ["y\n", "\n", "no\n", None])
def test_one_profile_is_removed_after_yes_alone_and_others_stay(project, monkeypatch, answer):
    before = files(project)
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    main(["artifacts", "clean", "mine", *([] if answer else ["--yes"])])
    removed = {f"{room}/mine/file" for room in ("results", "reports", "work")} | {
        "mlflow/mine.published.json"
    }
    assert before - files(project) == (removed if answer in ("y\n", None) else set())


@pytest.mark.parametrize("name", ["mine", "", ".", "..", "../other", "/tmp"])
def test_nothing_is_removed_without_anybody_to_ask_or_elsewhere(project, capsys, monkeypatch, name):
    before = files(project)
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))
    words = ("CONFIRM=yes", []) if name == "mine" else ("not the name of a profile", ["--yes"])
    assert words[0] in refused(capsys, "clean", name, *words[1])
    assert files(project) == before


def test_push_and_pull_say_what_is_missing(project, capsys):
    assert "dvc.profiles.yaml: no such file" in refused(capsys, "push")
    (project / "dvc.profiles.yaml").write_text(PROFILES)
    assert "dvc.lock: no such file" in refused(capsys, "pull")
    subprocess.run([sys.executable, "-m", "dvc", "init", "--no-scm", "-q"], cwd=project, check=True)
    assert "dvc remote add -d" in refused(capsys, "push")
    assert "did you mean 'mine'" in refused(capsys, "push", "mines")
    Path("dvc.lock").write_text(
        f"stages: {{data: {{outs: [{{path: results/other, md5: {'a' * 32}}}]}}}}"
    )
    assert "dvc.lock: names no results" in refused(capsys, "pull", "mine")
    for text in ("profiles: true", "profiles: {mine: {option: x}}"):
        (project / "dvc.profiles.yaml").write_text(text)
        assert "dvc.profiles.yaml" in refused(capsys, "push")


def test_a_profile_is_added_with_its_options_and_others_stay(project, capsys):
    (project / "dvc.profiles.yaml").write_text(PROFILES)
    main(
        [
            "artifacts",
            "add",
            "params/paper.yaml",
            "--scale",
            "small",
            "--inputs",
            "my data",
            "--fetch",
            "--conda",
        ]
    )
    assert capsys.readouterr().out == "dvc repro report@paper_small\n"
    profiles = read_profiles()
    assert list(profiles) == ["mine", "yours", "paper_small"]
    config = ["--config", "scale=small", "inputs=my data", "fetch=true"]
    assert profiles["paper_small"] == [
        "--sdm",
        "conda",
        "--configfile",
        "params/paper.yaml",
        *config,
    ]
    main(["artifacts", "add", "params/paper.yaml", "--scale", "small"])
    assert read_profiles()["paper_small"] == [
        "--configfile",
        "params/paper.yaml",
        "--config",
        "scale=small",
    ]


MODELS_OF = [MODELS.target(kind) for kind in MODELS.names()]
METRICS_OF = [METRICS.target(name) for name in METRICS.names()]
DECIDED_BY = {
    "data": ["recap.data.subsets", "recap.data.vocabulary", "recap.data.card"],
    "features": ["recap.features.extraction", "recap.features.training"],
    "train": [TRAINING, *MODELS_OF, "recap.training.language_model"],
    "evaluate": [EVALUATION, *MODELS_OF, *METRICS_OF],
    "report": [
        *("recap.tables.samples", "recap.report.figures", "recap.report.page"),
        *("recap.statistics.compare", "recap.statistics.claims", "recap.evaluation.figures"),
        *("recap.studies.make", "recap.studies.tables"),
    ],
}


@pytest.mark.parametrize("stage", DECIDED_BY)
def test_a_stage_depends_on_the_source_of_its_jobs(stage):
    """`recap artifacts pull` takes results for up to date if these have not changed."""
    entry = read_mapping(ROOT / "dvc.yaml")["stages"][stage]["do"]
    starts = DECIDED_BY[stage]
    rooms = {module.split(".")[1] for module, _ in source.reached(starts, source.PICTURES)}
    assert {f"src/recap/{room}" for room in rooms} <= set(entry["deps"])


def listing(*paths, md5="0" * 32):
    """Return the listing of a folder whose files all have one md5."""
    return json.dumps([{"md5": md5, "relpath": path} for path in paths], sort_keys=True).encode()


PATHS = ("/etc/passwd", "../x", "a/../../x", "a/./x", "a//x", "")
MD5S = ("../../../evil", "0" * 31, "", "0" * 32 + ".dir")


@pytest.mark.parametrize(
    "content", [*map(listing, PATHS), *(listing("a", md5=md5) for md5 in MD5S)]
)
def test_a_listing_with_a_path_that_leads_elsewhere_or_an_md5_that_is_none_is_refused(content):
    with refusals.refused(DataError, LISTINGS, FOLDER):
        listed_files({FOLDER: "1.dir"}, {FOLDER: content})


@pytest.mark.parametrize("link", [FOLDER, f"{FOLDER}/a"])
def test_nothing_is_written_through_a_symbolic_link(project, link):
    (project / link).parent.mkdir(parents=True, exist_ok=True)
    (project / link).symlink_to(project)
    with refusals.refused(DataError, f"{link}: ", "symbolic link"):
        listed_files({FOLDER: "1.dir"}, {FOLDER: listing("a/b")})


def test_listings_are_those_that_dvc_lock_names(project):
    text = listing("a", "b")
    outs = {FOLDER: hashlib.md5(text).hexdigest() + ".dir", "results/mine/curves.csv": "1" * 32}
    LISTINGS.write_text(json.dumps({FOLDER: json.loads(text)}))
    assert read_listings(outs) == {FOLDER: text}
    entries = {
        "results/mine/curves.csv": "1" * 32,
        f"{FOLDER}/a": "0" * 32,
        f"{FOLDER}/b": "0" * 32,
    }
    assert listed_files(outs, {FOLDER: text}) == entries
    for changed in ([], [*json.loads(text), {"md5": "1" * 32, "relpath": "c"}], None, "gone"):
        LISTINGS.write_text(json.dumps({FOLDER: changed}))
        if changed == "gone":
            LISTINGS.unlink()
        with refusals.refused(DataError, LISTINGS, FOLDER, "dvc.lock", "recap artifacts push"):
            read_listings(outs)


@pytest.mark.parametrize(
    "lock", ["stages: 3", "{}", "stages: {data: {outs: [{path: results/mine}]}}"]
)
def test_a_damaged_lock_is_refused(project, lock):
    Path("dvc.lock").write_text(lock)
    with refusals.refused(ConfigError, "dvc.lock"):
        outputs("mine")


def test_a_file_in_the_project_does_not_run_in_place_of_a_program(project):
    (project / "dvc.py").write_text("raise SystemExit('this ran')")
    assert re.match(r"\d+\.\d+", dvc._run("dvc", "--version").stdout)
