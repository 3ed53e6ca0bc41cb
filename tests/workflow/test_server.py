"""A table of COCO's server, from an empty folder to the zip
that it takes, and from its answer back to the table."""

import json
import subprocess
import sys
import zipfile

import pytest

from helpers.server_workspace import TEST, VAL, answer, make_server_workspace
from helpers.tiny_workspace import Workspace

CONFIG = ("inputs=inputs",)
NAMES = {"server_single_seed1", "server_single_seed2", "server_together"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    workspace = make_server_workspace(Workspace(tmp_path_factory.mktemp("server")))
    done = workspace.snakemake(config=CONFIG)
    assert done.returncode == 0, done.stderr[-6000:]
    return workspace


def table(finished, ending):
    return (finished.folder / "reports" / "tiny" / "tables" / f"server.{ending}").read_text()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_row_is_sent_with_a_caption_of_every_picture(finished):
    folder = finished.folder / "reports" / "tiny" / "server"
    assert {path.name for path in folder.iterdir()} == NAMES
    for name in NAMES:
        with zipfile.ZipFile(folder / name / f"{name}.zip") as archive:
            held = {file: json.loads(archive.read(file)) for file in archive.namelist()}
        assert list(held) == [
            f"captions_val2014_{name}_results.json",
            f"captions_test2014_{name}_results.json",
        ]
        for entries, ids in zip(held.values(), (VAL, TEST), strict=True):
            assert [entry["image_id"] for entry in entries] == list(ids)
            assert all(
                set(entry) == {"image_id", "caption"} and entry["caption"] for entry in entries
            )
        for file, entries in held.items():
            assert json.loads((folder / name / file).read_text()) == entries
    assert finished.planned(config=CONFIG) == {}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_answer_of_the_server_fills_its_row(finished):
    file = finished.folder / "answer.txt"
    file.write_text(answer())
    words = [
        "scores",
        "import",
        "answer.txt",
        "--submission",
        "reports/tiny/server/server_together",
    ]
    command = [sys.executable, "-m", "recap", *words, "--date", "2026-11-20"]
    done = subprocess.run(command, cwd=finished.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert finished.planned(config=CONFIG)["statistics"] == 1
    done = finished.snakemake(config=CONFIG)
    assert done.returncode == 0, done.stderr[-6000:]
    row = next(line for line in table(finished, "md").splitlines() if "2026-11-20" in line)
    assert "ours, COCO server, 2026-11-20" in row and "128.0" in row and "129.0" in row
    cells = [
        line.split(",")
        for line in table(finished, "csv").splitlines()
        if line.split(",")[2] == "together"
    ]
    assert len(cells) == 2 and all("COCO server" in ",".join(line) for line in cells)
    assert finished.planned(config=CONFIG) == {}
