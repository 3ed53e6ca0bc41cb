"""What makes a store again: what is extracted, and not how the extractor works."""

import os

import pytest

from helpers.refusals import refused
from recap.cli.features import _executed
from recap.core.errors import ConfigError
from recap.features import extraction
from recap.settings.features import Features, GridFeatures
from recap.settings.params import validate

SPEC = {"kind": "grid", "backbone": "mobilenetv2_100", "weights": "random"}


def job(folder, **changes):
    """Return the hash of everything that a store depends on but its pictures."""
    jobs = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(extraction, "build_store", lambda **values: jobs.append(values["job"]))
        job = extraction.ExtractionJob(None, [], folder, folder, folder)
        extraction.write(
            GridFeatures(**SPEC, **changes),
            job,
            None,
            ids=[],
            attributes={},
            streams=[],
            files=None,
        )
    return jobs[0]


def test_another_batch_or_shard_size_makes_no_store_again(tmp_path):
    assert job(tmp_path) == job(tmp_path, batch_size=3, shard_size=7)
    assert job(tmp_path) != job(tmp_path, grid=3)


def test_stores_keep_the_names_of_settings_that_were_renamed_since():
    spec = validate(
        Features,
        {"kind": "imported", "format": "npz_folder", "sources": ["a_att"]},
        "features/x.yaml",
    )
    assert spec.identity()["form"] == "npz_folder"
    assert "format" not in spec.identity()
    assert spec.model_dump()["format"] == "npz_folder"


@pytest.mark.parametrize(
    "spec", [SPEC, {"kind": "imported", "format": "npz_folder", "sources": ["a_att"]}]
)
def test_a_file_says_how_an_extractor_works_and_nothing_else(tmp_path, spec):
    settings, file = validate(Features, spec, "features/x.yaml"), tmp_path / "execution.yaml"
    file.write_text("shard_size: 7\n")
    assert _executed(settings, file) == validate(
        Features, {**spec, "shard_size": 7}, "features/x.yaml"
    )
    file.write_text("dtype: float32\n")
    with refused(ConfigError, "execution.yaml", "'dtype'"):
        _executed(settings, file)


def test_a_note_depends_on_bytes_and_on_neither_place_nor_time(tmp_path):
    notes = {}
    for place, content in (
        ("a", b"pictures"),
        ("b", b"pictures"),
        ("c", b"Pictures"),
        ("d", b"pictures"),
    ):
        folder = tmp_path / place
        (folder / "photos").mkdir(parents=True)
        (folder / "photos.zip").write_bytes(content)
        (folder / "photos" / f"{place == 'd'}.jpg").write_bytes(content)
        os.utime(folder / "photos.zip", (len(notes), len(notes)))
        files = [folder / "photos.zip", folder / "photos"]
        extraction.write_note(GridFeatures(**SPEC), code="0", files=files, out=folder / "note.json")
        notes[place] = (folder / "note.json").read_bytes()
    assert notes["a"] == notes["b"]
    assert len(set(notes.values())) == 3
