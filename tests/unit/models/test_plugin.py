"""A paper of a user's own: a folder as those of recap.papers, named by RECAP_PLUGINS, and nothing else is touched."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.feature_stores import write_store
from helpers.prepared import prepare
from recap.core.documents import read_mapping

pytestmark = pytest.mark.seconds

TESTS = Path(__file__).resolve().parents[2]
TOY = TESTS / "toy_paper"


@pytest.fixture
def plugin(tmp_path):
    """The environment in which the toy's folder is a plug-in."""
    shutil.copytree(TOY / "toy_fusion", tmp_path / "mine" / "toy_fusion")
    path = os.pathsep.join([str(tmp_path / "mine"), *sys.path])
    return {**os.environ, "PYTHONPATH": path, "RECAP_PLUGINS": "toy_fusion"}


@pytest.fixture
def prepared(tmp_path):
    made = prepare(tmp_path)
    from recap.data.corpus import Corpus

    ids = Corpus.read(tmp_path / "corpus.parquet").image_ids()
    (tmp_path / "features.h5").unlink()  # its cells have no boxes
    write_store(tmp_path / "features.h5", ids, stream="grid", width=6, boxes=True)
    write_store(tmp_path / "regions.h5", ids, stream="region", width=5, boxes=True)
    return made


def run(command, environment):
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=200)


def command(prepared, *more):
    """Return a training of the toy on cells and regions."""
    words = prepared.command("toy", model_settings=read_mapping(TOY / "params/toy/models/toy_fusion.yaml"))
    place = words.index("--features") + 2
    return [*words[:place], *map(str, more), *words[place:]]


def test_its_model_is_trained_from_two_feature_stores(prepared, plugin):
    regions = prepared.folder / "regions.h5"
    done = run(command(prepared, regions), plugin)
    assert done.returncode == 0, done.stderr
    made = prepared.folder / "toy" / "run"
    assert (made / "model.safetensors").exists() and "kind: toy_fusion" in (made / "config.yaml").read_text()
    without = run(command(prepared), plugin)
    assert without.returncode == 2 and "toy_fusion needs the streams grid and region, not grid" in without.stderr
    unknown = run(command(prepared, regions), {**plugin, "RECAP_PLUGINS": ""})
    assert unknown.returncode == 2 and "unknown kind 'toy_fusion'" in unknown.stderr
    missing = run(command(prepared, regions), {**plugin, "RECAP_PLUGINS": "toy_fusionn"})
    assert missing.returncode == 2 and "RECAP_PLUGINS: 'toy_fusionn' cannot be imported" in missing.stderr
    assert "Traceback" not in without.stderr + unknown.stderr + missing.stderr


@pytest.mark.slow
def test_the_contract_runs_for_a_plugin(plugin):
    tests = [str(TESTS / "unit" / "models" / "test_contract.py"), "-k", "toy_fusion", "-q", "-p", "no:cacheprovider"]
    done = run([sys.executable, "-m", "pytest", *tests], plugin)
    assert done.returncode == 0 and "failed" not in done.stdout, done.stdout[-3000:]
    assert int(done.stdout.rsplit(" passed", 1)[0].split()[-1]) > 20
