"""The rehearsal's server: files with Range, and repositories as the hub's own library wants them."""

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import chdir
from http.client import IncompleteRead
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from helpers.refusals import refused
from recap.core.errors import ConfigError, RecapError
from rehearsal import hub
from rehearsal.faults import FAULTS, Misbehavior
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


def fetched(url, **headers):
    with urlopen(Request(url, headers=headers)) as answer:
        return answer.status, dict(answer.headers), answer.read()


def test_the_rest_of_a_file_is_sent_if_it_is_still_the_same_file(tmp_path):
    (tmp_path / "a.bin").write_bytes(bytes(range(100)))
    with serve(tmp_path) as url:
        _, headers, whole = fetched(f"{url}/a.bin")
        status, _, rest = fetched(f"{url}/a.bin", Range="bytes=90-", **{"If-Range": headers["ETag"]})
        assert (status, rest) == (206, whole[90:])
        assert fetched(f"{url}/a.bin", Range="bytes=90-", **{"If-Range": '"other"'})[::2] == (200, whole)
        for name in ("b.bin", "../a.bin", "web/x.jpg"):
            with pytest.raises(HTTPError, match="404"):
                fetched(f"{url}/{name}")


def test_a_fault_is_played_at_its_file_alone_and_at_other_addresses_where_it_says_so(tmp_path):
    for name in ("a.bin", "b.bin"):
        (tmp_path / name).write_bytes(bytes(range(100)))
    faults = Misbehavior()
    first, everywhere = (
        next(fault for fault in FAULTS if fault.name.startswith(name)) for name in ("404 at the", "403")
    )
    with serve(tmp_path, misbehave=faults) as url:
        faults.begin({"a.bin": first, "b.bin": everywhere})
        for path in ("a.bin", "b.bin", "mirror1/b.bin"):
            with pytest.raises(HTTPError, match="40[34]"):
                fetched(f"{url}/{path}")
        assert fetched(f"{url}/mirror1/a.bin")[2] == bytes(range(100))
        faults.begin({"a.bin": FAULTS[0]})
        with pytest.raises(IncompleteRead):
            fetched(f"{url}/a.bin")
        assert not faults.asked_for_the_rest("a.bin")
        assert fetched(f"{url}/a.bin", Range="bytes=50-")[2] == bytes(range(50, 100))
        assert faults.asked_for_the_rest("a.bin")
        assert fetched(f"{url}/a.bin")[2] == fetched(f"{url}/b.bin")[2] == bytes(range(100))


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
