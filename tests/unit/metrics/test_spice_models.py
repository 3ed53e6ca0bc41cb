"""SPICE's models come from the list of outside files, into the folder where pycocoevalcap looks."""

import io
import zipfile

import pytest

from helpers.fetching import QUICK, line, listed, noise
from helpers.refusals import refused
from helpers.web_server import serve
from recap.core.errors import DataError, MetricError
from recap.metrics import spice
from recap.metrics.spice import MODEL_JARS
from recap.settings.versions import read_versions


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(spice, "package_folder", lambda part: tmp_path / "site" / part)
    return tmp_path / "site/spice/lib"


def jar(seed, name="noise"):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        file.writestr(name, noise(500, seed))
    return content.getvalue()


def whole():
    return {name: jar(number, needed) for number, (name, needed) in enumerate(MODEL_JARS.items())}


def test_the_models_are_fetched_kept_and_put_in_place_once(tmp_path, folder, capsys):
    jars = whole()
    code, models = jars
    with serve(jars) as site:
        listed(tmp_path, *(line(f"spice/{name}", f"{site.url}/{name}") for name in jars))
        files = read_versions(tmp_path / "list.csv")
        assert spice.spice_models_missing()
        places = spice.install_spice_models(files, into=tmp_path / "in", transfer=QUICK)
        assert places == [folder / name for name in MODEL_JARS]
        assert not spice.spice_models_missing()
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == jars
        said = capsys.readouterr().err
        assert all(
            f"{folder / name}: installed from {tmp_path / 'in' / 'spice' / name}" in said
            for name in jars
        )
        # Another environment takes them from the folder of outside files.
        (folder / code).unlink()
        spice.install_spice_models(files, into=tmp_path / "in", transfer=QUICK)
        assert len(site.requests) == 2
        # One that another program left cut in the environment is replaced.
        (folder / models).write_bytes(jars[models][:-10])
        spice.install_spice_models(files, into=tmp_path / "in", transfer=QUICK)
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == jars
    assert not spice.spice_models_missing()


def test_a_cut_model_is_not_installed(tmp_path, folder):
    jars = {
        name: content[: -10 * number or None]
        for number, (name, content) in enumerate(whole().items())
    }
    with serve(jars) as site:
        listed(tmp_path, *(line(f"spice/{name}", f"{site.url}/{name}") for name in jars))
        with refused(DataError, "stanford-corenlp-3.6.0-models.jar"):
            spice.install_spice_models(
                read_versions(tmp_path / "list.csv"), into=tmp_path / "in", transfer=QUICK
            )
    assert spice.spice_models_missing() and not folder.exists()


def test_a_jar_without_what_spice_needs_is_not_installed_and_both_places_are_named(
    tmp_path, folder
):
    jars = {**whole(), "stanford-corenlp-3.6.0.jar": jar(0)}
    with serve(jars) as site:
        listed(tmp_path, *(line(f"spice/{name}", f"{site.url}/{name}") for name in jars))
        fetched = tmp_path / "in" / "spice" / "stanford-corenlp-3.6.0.jar"
        with refused(
            MetricError,
            f"{fetched}: is damaged",
            f"{fetched.name} from {folder}",
            "inputs folder",
            ".class",
        ):
            spice.install_spice_models(
                read_versions(tmp_path / "list.csv"), into=tmp_path / "in", transfer=QUICK
            )
    assert not folder.exists()
