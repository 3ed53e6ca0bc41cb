"""The whole workflow for real, on twenty pictures:
every file, nothing twice, and only what depends on a change."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from helpers.tiny_workspace import ROOT, Workspace, counts
from recap.cli.doctor import plan_tools
from recap.plan.costs import costs_of
from recap.plan.profiles import named_plan
from recap.plan.report import plan_report
from recap.plan.run_jobs import scores_of
from recap.plan.stores import used_stores

TABLE = "reports/tiny/tables/tiny.md"
CHANGED = ("recipes/other.yaml", "2.0e-3", "3.0e-3")


@pytest.fixture(scope="module")
def to_the_table(tmp_path_factory):
    """Run the tiny profile from pictures to its table, once for all tests of this file."""
    workspace = Workspace(tmp_path_factory.mktemp("tiny"))
    done = workspace.snakemake(TABLE)
    assert done.returncode == 0, done.stderr[-6000:]
    return workspace


@pytest.fixture(scope="module")
def finished(to_the_table):
    """Run what is left of it."""
    done = to_the_table.snakemake()
    assert done.returncode == 0, done.stderr[-6000:]
    return to_the_table


@pytest.mark.smoke
@pytest.mark.timeout(600)
def test_it_ends_in_a_table_in_every_format(to_the_table):
    tables = to_the_table.folder / "reports" / "tiny" / "tables"
    for name in ("tex", "csv", "html", "md", "paper.tex"):
        assert (tables / f"tiny.{name}").stat().st_size > 0
    assert "Params (M)" in (to_the_table.folder / TABLE).read_text()


def test_the_report_of_snakemake_has_tables_figures_and_the_page(finished):
    done = finished.snakemake("--report", "workflow.zip")
    assert done.returncode == 0, done.stderr[-6000:]
    with zipfile.ZipFile(finished.folder / "workflow.zip") as archive:
        results = {Path(name).name for name in archive.namelist() if "/data/" in name}
    assert {
        "tiny.html",
        "tiny.paper.html",
        "tiny_captions.png",
        "curves.png",
        "report.html",
    } <= results


@pytest.mark.smoke
def test_it_made_what_the_plan_predicted(to_the_table, monkeypatch):
    monkeypatch.chdir(to_the_table.folder)
    plan = named_plan(Path("params"), "params/tiny.yaml")
    costs = costs_of(plan)
    for run in plan.trained:
        made = json.loads(Path(plan.files.results, "runs", run.path, "training.json").read_text())
        assert costs.steps(run) == made["steps"]
    (store,) = used_stores(plan)
    made = Path(plan.files.store(store.dataset, store.features)).stat().st_size
    # The header and the starts of six arrays are planned as whole pages.
    assert made <= costs.store(store).bytes < made + 10 * 4096
    for run in plan.scored:
        captions = json.loads(Path(scores_of(plan, run)["captions"]).read_text())
        assert len(captions) == costs.counts(run.dataset).test
    text = plan_report(plan, costs, plan_tools(plan), "recap measure params/tiny.yaml")
    assert "Outside files: all are here." in text


@pytest.mark.smoke
def test_a_changed_rate_is_named_once_with_its_runs_and_nothing_else_is_made_again(to_the_table):
    to_the_table.change(*CHANGED)
    said = to_the_table.dry_run(TABLE)
    to_the_table.change(CHANGED[0], *reversed(CHANGED[1:]))
    assert counts(said) == dict.fromkeys(("train_xe", "evaluate", "statistics", "table"), 1)
    # Nobody is told how to forget what changed.
    runs = [" ".join(line.split()) for line in said.splitlines() if "seed 1" in line]
    assert runs == [
        "train_xe ZoDIAC seed 1 xe.schedule.learning_rate 0.002 -> 0.003",
        "evaluate ZoDIAC seed 1 xe after train_xe",
    ]
    assert not re.search(
        "rerun-triggers|cleanup-metadata|individual jobs|Reasons|Building DAG", said
    )


@pytest.mark.timeout(600)
def test_it_ends_in_pictures_and_a_published_view_and_reruns_only_what_depends_on_a_change(
    finished,
):
    for name in ("tiny_captions.png", "tiny_clusters.png", "tiny_alignment.json", "curves.png"):
        assert (finished.folder / "reports" / "tiny" / "figures" / name).stat().st_size > 0
    summary = json.loads((finished.folder / "results" / "tiny" / "summary.json").read_text())
    assert {key.rsplit(".", 1)[0] for key in summary} == {"tiny.transformer", "tiny.zodiac"}
    published = json.loads((finished.folder / "mlflow" / "tiny.published.json").read_text())
    assert published["runs"] == 3
    assert finished.planned() == {}
    finished.change(*CHANGED)
    planned = finished.planned()
    finished.change(CHANGED[0], *reversed(CHANGED[1:]))
    after = (
        "figure_tiny_clusters",
        "statistics",
        "table",
        "samples",
        "summary",
        "curves",
        "report_page",
        "publish",
    )
    assert planned == dict.fromkeys(("train_xe", "evaluate", *after, "all"), 1)


@pytest.mark.timeout(600)
def test_a_study_goes_from_the_captions_to_a_table_that_says_that_raters_are_simulated(finished):
    study = ("studies=[tiny]",)
    done = finished.snakemake(config=study)
    assert done.returncode == 0, done.stderr[-6000:]
    folder = finished.folder / "reports" / "tiny" / "studies" / "tiny"
    names = {
        "sheets.json",
        "gold.md",
        "pictures.zip",
        "pages.zip",
        "batch.csv",
        "template.html",
        "simulated.json",
    }
    names |= {"responses.json", "table.tex", "table.csv", "table.html", "table.md", "SHA256SUMS"}
    assert {file.name for file in folder.iterdir()} == names
    assert all(
        "SIMULATED raters" in (folder / f"table.{kind}").read_text()
        for kind in ("tex", "html", "md")
    )
    assert "people" not in (folder / "table.csv").read_text()
    statistics = json.loads(
        (finished.folder / "results/tiny/statistics/studies/tiny.json").read_text()
    )
    assert statistics["simulated"] and statistics["blocks"][0]["votes"] == 2 * 2
    assert finished.planned(config=study) == {}
    # the report shows the studies of the profile
    assert set(finished.planned()) <= {"report_page", "all"}
    assert finished.snakemake().returncode == 0
    assert finished.planned() == {}


@pytest.mark.timeout(600)
def test_a_row_is_trained_on_the_files_of_a_finished_profile_which_stays_finished(finished):
    words = [
        sys.executable,
        "-m",
        "recap",
        "train",
        "--row",
        "tiny/transformer",
        "--profile",
        "params/tiny.yaml",
    ]
    words += ["--set", "scst.schedule.learning_rate=1e-3", "--set", "execution.max_steps=2"]
    done = subprocess.run(words, cwd=finished.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Nothing to be done" in done.stderr and " at step 2\n" in done.stderr
    run = finished.folder / "work/single/runs/tiny/transformer/seed-1/scst/run"
    assert {file.name for file in run.iterdir()} >= {
        "config.yaml",
        "model.safetensors",
        "training.json",
    }
    assert finished.planned() == {}


@pytest.mark.parametrize("lost", ["scores/**/captions.test.json", "runs/**/xe/model.safetensors"])
def test_a_file_that_got_lost_under_a_finished_report_is_made_again(finished, lost):
    file = next((finished.folder / "results" / "tiny").glob(lost))
    aside = file.rename(finished.folder / "aside")
    planned = finished.planned()
    aside.rename(file)
    assert planned["evaluate"] >= 1
    assert planned["table"] == 1


VERSIONED = [
    "Snakefile",
    "dvc.yaml",
    "dvc.profiles.yaml",
    ".dvcignore",
    ".dvc/config",
    "workflow",
    "profiles",
    "src",
]


def put_under_dvc(folder):
    """Make the finished workspace a repository of its own, as a clone of this one would be."""
    for name in VERSIONED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (folder / name).parent.mkdir(exist_ok=True)
        copy(ROOT / name, folder / name)
    for name in ("dvc.yaml", "dvc.profiles.yaml"):
        (folder / name).write_text((folder / name).read_text().replace("demo", "tiny"))
    (folder / ".gitignore").write_text((ROOT / ".gitignore").read_text())
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    commit(folder)


def commit(folder):
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org"]
    for command in (["add", "-A"], ["commit", "-q", "-m", "tiny"]):
        subprocess.run([*git, *command], cwd=folder, check=True, capture_output=True)


def dvc(folder, *arguments):
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "dvc", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def written(folder):
    """Return when each model was written."""
    return {
        file.parent.parent.parent.name: file.stat().st_mtime_ns
        for file in folder.glob("results/**/xe/model.*")
    }


@pytest.mark.timeout(600)
def test_dvc_and_snakemake_see_the_same_work(finished):
    folder = finished.folder
    put_under_dvc(folder)
    before = written(folder)
    dvc(folder, "repro")
    assert written(folder) == before
    assert "up to date" in dvc(folder, "repro")
    # Results are links to the cache of DVC, and read-only.
    models = [file.stat() for file in folder.glob("results/**/model.safetensors")]
    # Of files with the same bytes DVC links one alone.
    assert any(found.st_nlink == 2 and not found.st_mode & stat.S_IWUSR for found in models)
    finished.change(*CHANGED)
    # DVC copies linked files before a stage runs again,
    # so times tell nothing; a training's record has its seconds.
    records = {file: file.read_bytes() for file in folder.glob("results/**/training.json")}
    dvc(folder, "repro")
    changed = [str(file) for file, record in records.items() if file.read_bytes() != record]
    assert changed and all("zodiac@other" in file for file in changed)
    assert "tiny.zodiac.CIDEr" in dvc(folder, "metrics", "show")
    assert "index.html" in dvc(folder, "plots", "show")
    page = (folder / "dvc_plots" / "index.html").read_text()
    assert "curves.png" in page and "://" not in page
    assert finished.planned() == {}


def artifacts(folder, *arguments):
    command = [sys.executable, "-m", "recap", "artifacts", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_clone_that_pulls_makes_nothing_again_but_what_depends_on_a_later_change(
    finished, tmp_path
):
    if not (finished.folder / ".git").exists():
        put_under_dvc(finished.folder)
    dvc(finished.folder, "remote", "add", "--default", "store", str(tmp_path / "store"))
    done = artifacts(finished.folder, "push")
    assert done.returncode == 0, done.stderr
    commit(finished.folder)
    clone = Workspace.__new__(Workspace)
    clone.folder = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(finished.folder), str(clone.folder)], check=True)
    head = ["git", "rev-parse", "--short", "HEAD"]
    pushed = subprocess.check_output(head, cwd=clone.folder, text=True).strip()
    # What was changed before the pull would be taken for what made the results.
    (clone.folder / "params" / "recipes" / "new.yaml").write_text("base: other\n")
    done = artifacts(clone.folder, "pull")
    assert done.returncode == 2 and f"params/recipes/new.yaml: differs from commit {pushed}" in (
        done.stderr
    )
    assert not (clone.folder / "results").exists()
    (clone.folder / "params" / "recipes" / "new.yaml").unlink()
    change = (CHANGED[0], "learning_rate: ", "warmup: 2, learning_rate: ")
    clone.change(*change)
    commit(clone.folder)
    done = artifacts(clone.folder, "pull")
    assert f"params/{CHANGED[0]}: differs from commit {pushed}" in done.stderr
    subprocess.run(["git", "checkout", "-q", pushed], cwd=clone.folder, check=True)
    # Nothing in the project's folder is taken for an installed module.
    impostors = [clone.folder / f"{name}.py" for name in ("snakemake", "dvc", "mlflow", "psutil")]
    for file in impostors:
        file.write_text("raise SystemExit('it was imported')")
    done = artifacts(clone.folder, "pull")
    assert done.returncode == 0, done.stderr
    for file in impostors:
        file.unlink()
    assert clone.planned() == {}
    done = artifacts(clone.folder, "verify", "results/tiny", "reports/tiny")
    assert done.returncode == 0, done.stdout
    before = written(clone.folder)
    dvc(clone.folder, "repro")
    assert written(clone.folder) == before
    planned = clone.planned("train_all", config=("seeds=[1, 2]",))
    assert planned == {"subset": 1, "train_xe": 2, "train_scst": 1, "train_all": 1}
    clone.change(*change)
    assert clone.planned("train_all") == {"train_xe": 1, "train_all": 1}
