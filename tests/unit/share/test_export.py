"""A run that is given to others: one folder,
read from a path or from the hub, says what the run says."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml

import recap
from helpers.refusals import refused
from helpers.tiny_workspace import ROOT
from recap.cli import main
from recap.core.errors import ChangedFile, ConfigError, DamagedFile, MissingFeatures
from recap.share.export import export_hub
from rehearsal.server import serve

pytestmark = pytest.mark.seconds

FILES = [
    "README.md",
    "SHA256SUMS",
    "config.yaml",
    "features-0.safetensors",
    "features.json",
    "model.safetensors",
]
REVISION = "b" * 40
FROM_HUB = """
import sys
import recap
captioner = recap.load(sys.argv[1], device="cpu")
print(captioner.name, captioner.decoding.beam, captioner(sys.argv[2]), sep="|")
recap.load(sys.argv[3])
"""


@pytest.fixture(scope="module")
def exported(results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared") / "model"
    main(["export", "hub", str(results.folder), "--out", str(folder)])
    return folder


@pytest.fixture
def copied(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "copied")


def test_the_folder_needs_no_other_file(exported, captioner, photo, tmp_path):
    assert sorted(path.name for path in exported.iterdir()) == [*FILES, "vocabulary.json"]
    moved = shutil.copytree(exported, tmp_path / "elsewhere")
    found = recap.load(moved, device="cpu")
    assert (found.name, found.decoding) == (captioner.name, captioner.decoding)
    assert (
        found.captions([photo], n_best=2)[0].captions
        == captioner.captions([photo], n_best=2)[0].captions
    )
    assert found(photo.read_bytes()) == captioner(photo)


def test_the_card_has_scores_signature_and_licences(exported, results):
    card = (exported / "README.md").read_text()
    header = yaml.safe_load(card.split("---")[1])
    assert header["pipeline_tag"] == "image-to-text" and "transformer" in header["tags"]
    metrics = json.loads((results.scores / "metrics.json").read_text())
    assert f"| BLEU-1 | {100 * metrics['scores']['BLEU-1']:.2f} |" in card
    assert f"Signature: `{metrics['signature']}`" in card
    assert "drawn by recap itself (MIT)" in card


def test_it_is_read_by_its_name_on_the_hub(exported, photo, captioner, tmp_path):
    pytest.importorskip("huggingface_hub", reason="needs huggingface_hub")
    shutil.copytree(exported, tmp_path / "hub" / "someone" / "model")
    with serve(tmp_path) as url:
        environment = {
            **os.environ,
            "HF_ENDPOINT": url,
            "HF_HOME": str(tmp_path / "cache"),
            "HF_HUB_DISABLE_XET": "1",
        }
        shared, other = (f"hub:someone/{name}@{REVISION}" for name in ("model", "other"))
        command = [sys.executable, "-c", FROM_HUB, shared, str(photo), other]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert (
            done.stdout.strip() == f"{captioner.name}|{captioner.decoding.beam}|{captioner(photo)}"
        ), done.stderr
        assert f"{other}: config.yaml cannot be fetched" in done.stderr


def test_a_name_without_a_commit_is_refused():
    for name in ("hub:someone/model", "hub:someone/model@main", "hub:../model@" + REVISION):
        with refused(ConfigError, "write hub:OWNER/NAME@REVISION"):
            recap.load(name)


def test_a_folder_that_was_changed_is_refused(copied):
    file = copied / "features.json"
    file.write_text(file.read_text().replace('"rows": 4', '"rows": 5'))
    with refused(ChangedFile, "features.json"):
        recap.load(copied)
    (copied / "SHA256SUMS").unlink()
    values = json.loads(file.read_text())
    for weights in ("../model.safetensors", "features-0.pkl", "other.safetensors"):
        file.write_text(json.dumps([{**values[0], "weights": weights}]))
        with refused(MissingFeatures if weights.startswith("other") else DamagedFile, copied):
            recap.load(copied)


def test_the_server_of_the_guide_answers_bytes_and_refuses_what_is_no_photo(
    exported, captioner, photo
):
    fastapi = pytest.importorskip("fastapi.testclient", reason="needs fastapi")
    guide = (ROOT / "docs" / "guides" / "serve_and_share.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"Write `app.py`:\n\n```python\n(.*?)```", guide, re.DOTALL)
    scope = {}
    exec(code.replace("shared/demo", str(exported)), scope)
    client = fastapi.TestClient(scope["app"])
    assert client.post("/caption", content=photo.read_bytes()).json() == {
        "caption": captioner(photo)
    }
    for content, reason in ((b"", "empty"), (str(photo).encode(), "no picture")):
        answer = client.post("/caption", content=content)
        assert answer.status_code == 400 and reason in answer.json()["detail"]


def test_a_folder_with_files_is_not_overwritten(results, copied, params):
    with refused(ConfigError, "name a new folder"):
        export_hub(results.run, copied, params=params)
    assert (copied / "model.safetensors").exists()
