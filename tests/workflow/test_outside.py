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
  - {id: weights, label: Weights, released: theirs, printed: {BLEU-4: 12.5}}
rows:
"""


def write_captions(folder, text):
    corpus = Corpus.read(folder / "results" / "tiny" / "data" / "tiny_scenes" / "corpus.parquet")
    said = {image: captions[0] for image, captions in corpus.captions("test").items()}
    lines = [
        json.dumps({"image_id": image, "caption": text or caption})
        for image, caption in said.items()
    ]
    (folder / "inputs").mkdir(exist_ok=True)
    (folder / "inputs" / "theirs.jsonl").write_text("\n".join(lines))


def finish(workspace):
    done = workspace.snakemake(config=CONFIG)
    assert done.returncode == 0, done.stderr[-6000:]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_captions_from_a_file_and_released_weights_become_rows_of_the_table(tmp_path):
    workspace = Workspace(tmp_path)
    finish(workspace)
    workspace.change("tables/tiny.yaml", "rows:\n", OUTSIDE)
    write_captions(tmp_path, "")
    done = workspace.snakemake(config=CONFIG)
    assert done.returncode != 0 and "inputs/theirs/config.yaml: no such file" in done.stderr

    results, reports = tmp_path / "results" / "tiny", tmp_path / "reports" / "tiny"
    baseline = next(
        path.parent for path in sorted(results.glob("scores/**/seed-1/scst/metrics.json"))
    )
    folder = tmp_path / "inputs" / "theirs"
    shutil.copytree(results / "runs" / baseline.relative_to(results / "scores"), folder)
    shutil.copy(results / "data" / "tiny_scenes" / "vocabulary.json", folder)
    planned = workspace.planned(config=CONFIG)
    assert planned["score_file"] == planned["score_released"] == 1
    assert not {"train_xe", "train_scst", "evaluate"} & set(planned)
    finish(workspace)
    scores = results / "scores" / "tiny_scenes" / "outside" / "tiny"
    assert (scores / "weights/captions.test.json").read_bytes() == (
        baseline / "captions.test.json"
    ).read_bytes()
    page = (reports / "tables" / "tiny.md").read_text()
    assert "Weights (released weights)" in page and "12.5" in page
    assert "Theirs (captions from outside)" in page and "theirs.jsonl" in page
    assert "Theirs (from outside)" in (reports / "figures" / "tiny_captions.md").read_text()
    assert workspace.planned(config=CONFIG) == {}

    before = json.loads((scores / "theirs/metrics.json").read_text())
    write_captions(tmp_path, "a thing")
    assert workspace.planned(config=CONFIG)["score_file"] == 1
    finish(workspace)
    after = json.loads((scores / "theirs/metrics.json").read_text())
    assert (
        after["scores"]["BLEU-4"] < before["scores"]["BLEU-4"]
        and after["signature"] != before["signature"]
    )
