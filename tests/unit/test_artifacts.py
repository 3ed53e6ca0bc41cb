"""`recap artifacts`: one profile is removed after asking, and push and pull say what is missing."""

import io
import subprocess
import sys

import pytest

from recap.cli import main


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A working folder with the results of two profiles."""
    monkeypatch.chdir(tmp_path)
    for profile in ("mine", "yours"):
        for room in ("results", "reports", "work"):
            (tmp_path / room / profile).mkdir(parents=True)
            (tmp_path / room / profile / "file").write_text("x")
        (tmp_path / "mlflow").mkdir(exist_ok=True)
        (tmp_path / "mlflow" / f"{profile}.published.json").write_text("{}")
    return tmp_path


def files(project):
    return {str(file.relative_to(project)) for file in project.rglob("*") if file.is_file()}


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["artifacts", *arguments])
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_one_profile_is_removed_and_others_stay(project):
    main(["artifacts", "clean", "mine", "--yes"])
    yours = {f"{room}/yours/file" for room in ("results", "reports", "work")}
    assert files(project) == yours | {"mlflow/yours.published.json"}


def test_without_anybody_to_ask_nothing_is_removed(project, capsys, monkeypatch):
    before = files(project)
    monkeypatch.setattr(sys, "stdin", io.StringIO("yes\n"))
    assert "CONFIRM=yes" in refused(capsys, "clean", "mine")
    assert files(project) == before


@pytest.mark.parametrize("answer, left", [("y\n", False), ("\n", True), ("no\n", True)])
def test_it_asks_and_takes_only_yes(project, monkeypatch, answer, left):
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    main(["artifacts", "clean", "mine"])
    assert (project / "results" / "mine").exists() == left


@pytest.mark.parametrize("name", ["", ".", "..", "../other", "/tmp"])
def test_a_name_that_leads_elsewhere_is_refused(project, capsys, name):
    before = files(project)
    assert "not the name of a profile" in refused(capsys, "clean", name, "--yes")
    assert files(project) == before


def test_push_and_pull_say_what_is_missing(project, capsys):
    assert "dvc.yaml: no such file" in refused(capsys, "push")
    (project / "dvc.yaml").write_text("vars:\n  - profile: mine\n")
    assert "dvc.lock: no such file" in refused(capsys, "pull")
    subprocess.run([sys.executable, "-m", "dvc", "init", "--no-scm", "-q"], cwd=project, check=True)
    assert "dvc remote add -d" in refused(capsys, "push")
