"""Rows that are not trained here, from their files to the table: captions, and released weights."""

import json
import shutil

import pytest

from helpers.tiny_workspace import Workspace
from recap.data.corpus import Corpus

CONFIG = ("inputs=inputs",)
OUTSIDE = """\
outside:
  - {id: theirs, label: Theirs, captions: theirs.jsonl}
rows:
"""


def write_captions(folder, text):
    corpus = Corpus.read(folder / "results" / "tiny" / "data" / "tiny_scenes" / "corpus.parquet")
    said = {image: captions[0] for image, captions in corpus.captions("test").items()}
    lines = [json.dumps({"image_id": image, "caption": text or caption}) for image, caption in said.items()]
    (folder / "inputs").mkdir(exist_ok=True)
    (folder / "inputs" / "theirs.jsonl").write_text("\n".join(lines))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_captions_from_a_file_become_a_row_of_the_table(tmp_path):
    workspace = Workspace(tmp_path)
    done = workspace.snakemake(config=CONFIG)
    assert done.returncode == 0, done.stderr[-6000:]
    workspace.change("tables/tiny.yaml", "rows:\n", OUTSIDE)
    done = workspace.snakemake(config=CONFIG)
    assert done.returncode != 0 and "inputs/theirs.jsonl: no such file" in done.stderr

    write_captions(tmp_path, "")
    planned = workspace.planned(config=CONFIG)
    assert planned["score_file"] == 1 and not {"train_xe", "train_scst", "evaluate"} & set(planned)
    done = workspace.snakemake(config=CONFIG)
    assert done.returncode == 0, done.stderr[-6000:]
    reports = tmp_path / "reports" / "tiny"
    page = (reports / "tables" / "tiny.md").read_text()
    assert "Theirs (captions from outside)" in page and "theirs.jsonl" in page
    assert "Theirs (from outside)" in (reports / "figures" / "tiny_captions.md").read_text()
    assert workspace.planned(config=CONFIG) == {}

    metrics = tmp_path / "results" / "tiny" / "scores" / "tiny_scenes" / "outside" / "tiny" / "theirs" / "metrics.json"
    before = json.loads(metrics.read_text())
    write_captions(tmp_path, "a thing")
    assert workspace.planned(config=CONFIG)["score_file"] == 1
    done = workspace.snakemake(config=CONFIG)
    assert done.returncode == 0, done.stderr[-6000:]
    after = json.loads(metrics.read_text())
    assert after["scores"]["BLEU-4"] < before["scores"]["BLEU-4"] and after["signature"] != before["signature"]


RELEASED = """\
outside:
  - {id: theirs, label: Theirs, released: theirs, printed: {BLEU-4: 12.5}}
rows:
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_released_weights_become_a_row_of_the_table(tmp_path):
    workspace = Workspace(tmp_path)
    done = workspace.snakemake(config=CONFIG)
    assert done.returncode == 0, done.stderr[-6000:]
    workspace.change("tables/tiny.yaml", "rows:\n", RELEASED)
    done = workspace.snakemake(config=CONFIG)
    assert done.returncode != 0 and "inputs/theirs/config.yaml: no such file" in done.stderr

    results = tmp_path / "results" / "tiny"
    baseline = next(path.parent for path in sorted(results.glob("scores/**/seed-1/scst/metrics.json")))
    folder = tmp_path / "inputs" / "theirs"
    shutil.copytree(results / "runs" / baseline.relative_to(results / "scores"), folder)
    shutil.copy(results / "data" / "tiny_scenes" / "vocabulary.json", folder)
    planned = workspace.planned(config=CONFIG)
    assert planned["score_released"] == 1 and not {"train_xe", "train_scst", "evaluate"} & set(planned)
    done = workspace.snakemake(config=CONFIG)
    assert done.returncode == 0, done.stderr[-6000:]
    scores = results / "scores" / "tiny_scenes" / "outside" / "tiny" / "theirs"
    assert (scores / "captions.test.json").read_bytes() == (baseline / "captions.test.json").read_bytes()
    page = (tmp_path / "reports" / "tiny" / "tables" / "tiny.md").read_text()
    assert "Theirs (released weights)" in page and "12.5" in page
    assert "Released weights, scored here like ours: Theirs (theirs)." in page
    assert workspace.planned(config=CONFIG) == {}
