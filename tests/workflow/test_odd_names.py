"""Folders, an environment and a data set whose names a shell,
or a regular expression, would read otherwise."""

import subprocess
import sys
from pathlib import Path

import pytest

from helpers.tiny_workspace import ROOT, Workspace

ODD = "my dir é `touch PWNED`"
NAME = "a+b [c] `touch PWNED`; x"


@pytest.fixture
def odd(tmp_path):
    """A workspace, in a folder with an odd name, whose data set has an odd name."""
    workspace = Workspace(tmp_path / ODD)
    params = workspace.folder / "params"
    (params / "datasets" / "tiny_scenes.yaml").rename(params / "datasets" / f"{NAME}.yaml")
    table = params / "tables" / "tiny.yaml"
    table.write_text(table.read_text().replace("dataset: tiny_scenes", f'dataset: "{NAME}"'))
    return workspace


def test_a_data_set_of_any_name_is_planned(odd):
    assert odd.planned("data_all")["corpus_with_images_boxes"] == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_nothing_in_a_name_is_run_as_a_command(odd, tmp_path):
    environment = tmp_path / f"env {ODD}"
    environment.symlink_to(sys.prefix)
    (tmp_path / f"clone {ODD}").symlink_to(ROOT)
    command = [str(environment / "bin" / "python"), "-m", "snakemake", "data_all", "--cores", "2"]
    command += [
        "--snakefile",
        str(tmp_path / f"clone {ODD}" / "Snakefile"),
        "--configfile",
        "params/tiny.yaml",
    ]
    done = subprocess.run(command, cwd=odd.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (odd.folder / "results" / "tiny" / "data" / NAME / "corpus.parquet").stat().st_size > 0
    assert [str(file) for file in tmp_path.rglob("PWNED")] == []
    assert not Path("PWNED").exists()


@pytest.mark.parametrize("name", ["-x", "a{b}", "a@b"])
def test_a_name_that_no_path_can_hold_is_refused_in_one_sentence(workspace, name):
    table = workspace.folder / "params" / "tables" / "tiny.yaml"
    table.write_text(table.read_text().replace("dataset: tiny_scenes", f'dataset: "{name}"'))
    file = workspace.folder / "params" / "datasets" / f"{name}.yaml"
    file.parent.mkdir(exist_ok=True)
    (workspace.folder / "params" / "datasets" / "tiny_scenes.yaml").rename(file)
    done = workspace.snakemake("--dry-run")
    assert done.returncode == 1
    assert (
        f"recap: datasets/{name}.yaml: a name cannot begin with - or ., nor hold / @" in done.stderr
    )
