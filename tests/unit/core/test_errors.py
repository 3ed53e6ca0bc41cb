"""How errors are told: short, in one sentence, without what libraries add."""

import os
import subprocess
import sys

import pytest

from recap.cli.errors import one_sentence
from recap.core.errors import ConfigError


def test_a_long_value_leaves_the_beginning_and_the_end_of_its_sentence():
    sentence = str(ConfigError(f"a.yaml: unknown key {'x' * 3500!r}; correct it"))
    assert sentence.startswith("a.yaml") and sentence.endswith("; correct it") and len(sentence) < 700
    assert str(ConfigError("x" * 600)) == "x" * 600


@pytest.mark.parametrize("error", [MemoryError(), ImportError("libx.so: failed to map segment from shared object")])
def test_a_full_memory_is_one_sentence(monkeypatch, capsys, error):
    statuses = []
    monkeypatch.setattr(os, "_exit", statuses.append)
    with one_sentence():
        raise error
    assert statuses == [2]
    assert capsys.readouterr().err.startswith("recap: the memory is full")


def test_another_failed_import_keeps_its_traceback():
    with pytest.raises(ImportError, match="no such library"), one_sentence():
        raise ImportError("no such library")


def test_warnings_of_pillow_do_not_reach_the_user(tmp_path):
    from PIL import Image

    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "a description" * 20
    Image.new("RGB", (40, 60)).save(tmp_path / "x.jpg", exif=exif)
    content = (tmp_path / "x.jpg").read_bytes()
    start = content.index(b"Exif\0\0")
    length = int.from_bytes(content[start - 2 : start], "big")
    cut = (length - 100).to_bytes(2, "big") + content[start : start + length - 102] + content[start + length - 2 :]
    (tmp_path / "x.jpg").write_bytes(content[: start - 2] + cut)
    read = "from recap.share.photos import read_photo; print(read_photo('x.jpg', 'x.jpg').size)"
    for code, warned in ((read, True), (f"from recap.cli import main; main(['params', 'list']); {read}", False)):
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
        assert ("TiffImagePlugin.py" in done.stderr) == warned, done.stderr
