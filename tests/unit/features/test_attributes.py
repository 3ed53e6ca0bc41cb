"""The note of what makes a feature store."""

from __future__ import annotations

import os

from recap.features.attributes import write_note
from recap.settings.features import GridFeatures

SPEC = GridFeatures(kind="grid", backbone="test_resnet", weights="random", image_size=64, grid=2)


def test_a_note_depends_on_bytes_and_on_neither_place_nor_time(tmp_path):
    notes = {}
    for place, content in (("a", b"pictures"), ("b", b"pictures"), ("c", b"Pictures"), ("d", b"pictures")):
        folder = tmp_path / place
        (folder / "photos").mkdir(parents=True)
        (folder / "photos.zip").write_bytes(content)
        (folder / "photos" / f"{place == 'd'}.jpg").write_bytes(content)
        os.utime(folder / "photos.zip", (len(notes), len(notes)))
        write_note(SPEC, code="0", files=[folder / "photos.zip", folder / "photos"], out=folder / "note.json")
        notes[place] = (folder / "note.json").read_bytes()
    assert notes["a"] == notes["b"]
    assert len(set(notes.values())) == 3
