"""A paper outside of the package:
the workflow makes its table and its figure and judges its claims."""

import csv
import json
import os
import shutil

import pytest

from helpers.tiny_workspace import ROOT, Workspace
from recap.settings.datasets import DatasetConfig

TOY = ROOT / "tests" / "toy_paper"
TABLES = ("tables=[toy/t1]",)


@pytest.mark.timeout(900)
def test_a_plugin_brings_table_model_metric_and_figure(tmp_path, monkeypatch):
    monkeypatch.setenv("RECAP_PLUGINS", "toy_fusion")
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, [str(TOY), os.environ.get("PYTHONPATH")]))
    )
    workspace = Workspace(tmp_path)
    shutil.copytree(TOY / "params", tmp_path / "params", dirs_exist_ok=True)
    done = workspace.snakemake(config=TABLES)
    assert done.returncode == 0, done.stderr[-6000:]
    reports = tmp_path / "reports" / "tiny"
    statistics = json.loads((tmp_path / "results/tiny/statistics/toy_t1.json").read_text())
    assert statistics["columns"] == ["BLEU-4", "Words"]
    words = {row["label"]: row["cells"]["Words"]["mean"] for row in statistics["rows"]}
    drawn = list(csv.DictReader((reports / "figures" / "toy_t1_lengths.csv").open()))
    assert {line["model"] for line in drawn} == set(words) == {"Toy", "Wide toy"}
    claims = {
        line["claim"]: line for line in csv.DictReader((reports / "tables" / "claims.csv").open())
    }
    assert [line["verdict"] for line in claims.values()] == ["cannot be told here", "holds"]
    # the profile has one seed
    assert "one run" in claims["toy.c1"]["reason"] and claims["toy.c1"]["runs"] == "1"
    assert (reports / "tables" / "claims.html").is_file()
    assert "5.0" in (reports / "tables" / "toy_t1.md").read_text()  # the printed number
    assert workspace.planned(config=TABLES) == {}


def test_a_path_that_is_not_declared_as_an_outside_file_is_refused():
    with pytest.raises(
        TypeError, match=r"Forgotten.captions: annotate it as OutsideFile if it is the path"
    ):

        class Forgotten(DatasetConfig):
            captions: str
