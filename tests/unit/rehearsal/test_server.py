"""The rehearsal's server: files with Range, and repositories as the hub's own library wants them."""

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import chdir

import pytest

from helpers.refusals import refused
from recap.core.errors import ConfigError, RecapError
from rehearsal import hub
from rehearsal.rehearse import STATE, open_folder
from rehearsal.server import serve

FROM_HUB = """
import json, sys
from huggingface_hub import HfApi, hf_hub_download
from recap.data.vocabulary import load_byte_pairs
from recap.features.backbones import create
from recap.settings.features import GridFeatures
from pathlib import Path
weights = hf_hub_download("openai-community/gpt2", "model.safetensors", revision="a" * 40)
words = load_byte_pairs("hub:openai-community/gpt2", inputs=Path(), max_length=30)
network = create(GridFeatures(kind="grid", backbone="test_vit.r160_in1k", weights="pretrained", image_size=112))
print(json.dumps([Path(weights).parent.name, words.decode(words.encode(["a", "red", "dog"])), len(words.rows),
    sum(value.numel() for value in network.parameters())]))
"""


@pytest.mark.slow
def test_the_hubs_own_library_loads_weights_and_byte_pairs(tmp_path):
    hub.write_timm("test_vit.r160_in1k", tmp_path / "hub" / "timm" / "test_vit.r160_in1k")
    sizes = hub.Gpt2Sizes(width=8, feed_forward=16, layers=1, positions=20)
    hub.write_gpt2(tmp_path / "hub" / "openai-community" / "gpt2", sizes)
    with serve(tmp_path) as url:
        environment = {**os.environ, "HF_ENDPOINT": url, "HF_HOME": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "0"}
        done = subprocess.run([sys.executable, "-c", FROM_HUB], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    commit, text, pieces, parameters = json.loads(done.stdout)
    assert commit == "a" * 40 and text == "a red dog"
    names = json.loads((tmp_path / "hub/openai-community/gpt2/vocab.json").read_text())
    assert pieces == len(names) + 1  # <eos> and <unk> are one piece
    assert parameters > 100_000


@pytest.mark.parametrize("state", ["[]", "{", '{"paper": "xlan", "short": true, "port": 70000}', '{"by_hand": []}'])
def test_a_damaged_state_of_a_rehearsal_is_one_sentence(tmp_path, state):
    (tmp_path / STATE).write_text(state)
    with refused(RecapError, tmp_path / STATE):
        open_folder(tmp_path, "xlan", True)


def test_a_rehearsal_goes_on_from_its_state(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state = open_folder(tmp_path / "new", "xlan", True)
    state.port, state.planned = 8000, Counter(train_xe=2)
    with chdir("new"):
        state.save()
    assert open_folder(tmp_path / "new", "xlan", True) == state
    with refused(ConfigError, "paper"):
        open_folder(tmp_path / "new", "acf", True)
