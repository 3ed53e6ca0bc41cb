"""SPICE's models come from the list of outside files, into the folder where pycocoevalcap looks."""

import io
import zipfile

import pytest

from helpers.fetching import QUICK, line, listed, noise
from helpers.refusals import refused
from helpers.web_server import serve
from recap.core.errors import DataError
from recap.metrics import spice
from recap.metrics.spice import MODEL_JARS
from recap.settings.versions import read_versions


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(spice, "package_folder", lambda part: tmp_path / "site" / part)
    return tmp_path / "site/spice/lib"


def jar(seed):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr("noise", noise(500, seed))
    return content.getvalue()


def test_the_models_are_fetched_kept_and_put_in_place_once(tmp_path, folder):
    jars = {name: jar(number) for number, name in enumerate(MODEL_JARS)}
    with serve(jars) as site:
        listed(tmp_path, *(line(f"spice/{name}", f"{site.url}/{name}") for name in jars))
        files = read_versions(tmp_path / "list.csv")
        assert spice.spice_models_missing()
        places = spice.install_spice_models(files, into=tmp_path / "in", transfer=QUICK)
        assert places == [folder / name for name in MODEL_JARS]
        assert not spice.spice_models_missing()
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == jars
        # Another environment takes them from the folder of outside files.
        (folder / MODEL_JARS[0]).unlink()
        spice.install_spice_models(files, into=tmp_path / "in", transfer=QUICK)
        assert len(site.requests) == 2
        # One that another program left cut in the environment is replaced.
        (folder / MODEL_JARS[1]).write_bytes(jars[MODEL_JARS[1]][:-10])
        spice.install_spice_models(files, into=tmp_path / "in", transfer=QUICK)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == jars
    assert not spice.spice_models_missing()


def test_a_cut_model_is_not_installed(tmp_path, folder):
    jars = {name: jar(number)[: -10 * number or None] for number, name in enumerate(MODEL_JARS)}
    with serve(jars) as site:
        listed(tmp_path, *(line(f"spice/{name}", f"{site.url}/{name}") for name in jars))
        with refused(DataError, MODEL_JARS[1]):
            spice.install_spice_models(read_versions(tmp_path / "list.csv"), into=tmp_path / "in", transfer=QUICK)
    assert spice.spice_models_missing() and not folder.exists()
