"""Hostile, broken and interrupted archives: everything in the folder or nothing, and one sentence."""

import io
import os
import signal
import stat
import subprocess
import sys
import tarfile
import time
import zipfile

import numpy as np
import pytest

from recap.core.errors import DataError
from recap.data.files.archives import extract_archive

FILES = {"top.txt": b"top", "a/one.bin": bytes(range(256)) * 40, "a/b/two.bin": b"", "./c/three.txt": b"three"}


def write_zip(path, entries):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content)
    return path


def write_tgz(path, entries):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in entries:
            entry = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


WRITERS = {"x.zip": write_zip, "x.tgz": write_tgz}


def found(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".extracted.json")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize("name", WRITERS)
def test_a_whole_archive(tmp_path, name):
    archive = WRITERS[name](tmp_path / name, FILES.items())
    assert extract_archive(archive, into=tmp_path / "out") == len(FILES)
    assert found(tmp_path / "out") == {key.removeprefix("./"): value for key, value in FILES.items()}
    marked = (tmp_path / "out/top.txt").stat().st_ino
    assert extract_archive(archive, into=tmp_path / "out") == len(FILES)
    assert (tmp_path / "out/top.txt").stat().st_ino == marked
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", name]


def refused(archive, tmp_path, **options):
    with pytest.raises(DataError) as caught:
        extract_archive(archive, into=tmp_path / "deep/out", **options)
    text = str(caught.value)
    assert archive.name in text
    assert "\n" not in text
    assert not list((tmp_path / "deep").iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", archive.name]
    return text


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize(
    "name", ["/etc/recap", "../out.txt", "a/../../out.txt", "..", "a\\..\\b", "C:/out.txt", ".extracted.json"]
)
def test_unsafe_names(tmp_path, kind, name):
    archive = WRITERS[kind](tmp_path / kind, [("good.txt", b"x"), (name, b"x")])
    assert "do not use this archive" in refused(archive, tmp_path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("twice", ["a/b.txt", "./a/b.txt"])
def test_duplicates(tmp_path, kind, twice):
    archive = WRITERS[kind](tmp_path / kind, [("a/b.txt", b"one"), (twice, b"two")])
    assert "holds 'a/b.txt' twice" in refused(archive, tmp_path)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_that_is_also_a_folder(tmp_path, kind):
    archive = WRITERS[kind](tmp_path / kind, [("a", b"one"), ("a/b", b"two")])
    assert "truncated or damaged" in refused(archive, tmp_path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE])
def test_links_and_devices_of_a_tar(tmp_path, kind):
    entry = tarfile.TarInfo("odd")
    entry.type, entry.linkname = kind, "/etc/passwd"
    archive = write_tgz(tmp_path / "x.tgz", [("good.txt", b"x"), (entry, b""), ("odd/file", b"x")])
    assert "'odd' is a link or a device" in refused(archive, tmp_path)


def test_links_of_a_zip(tmp_path):
    entry = zipfile.ZipInfo("odd")
    entry.create_system, entry.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    archive = write_zip(tmp_path / "x.zip", [("good.txt", b"x"), (entry, b"/etc/passwd")])
    assert "'odd' is a link or a device" in refused(archive, tmp_path)


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_truncation(tmp_path, kind, share):
    random = np.random.default_rng(0)
    archive = WRITERS[kind](tmp_path / kind, [(f"{number}.bin", random.bytes(5000)) for number in range(20)])
    content = archive.read_bytes()
    archive.write_bytes(content[: int(share * len(content))])
    assert "truncated or damaged" in refused(archive, tmp_path)


@pytest.mark.parametrize("kind", WRITERS)
def test_flipped_bytes(tmp_path, kind):
    random = np.random.default_rng(0)
    archive = WRITERS[kind](tmp_path / kind, [(f"{number}.bin", random.bytes(5000)) for number in range(20)])
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 0xFF
    archive.write_bytes(content)
    assert "truncated or damaged" in refused(archive, tmp_path)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_declared_total_beyond_the_limit(tmp_path, kind):
    archive = WRITERS[kind](tmp_path / kind, [(f"{number}.bin", bytes(400_000)) for number in range(3)])
    assert "raise the limit with --limit-gb" in refused(archive, tmp_path, limit=1_000_000)
    assert extract_archive(archive, into=tmp_path / "deep/out", limit=1_200_000) == 3


def test_a_bomb_is_refused_by_default(tmp_path, monkeypatch):
    monkeypatch.setattr("recap.data.files.archives.ALWAYS_ALLOWED", 1000)
    archive = write_zip(tmp_path / "x.zip", [("zeros", bytes(2_000_000))])
    assert "unpacks to more than" in refused(archive, tmp_path)


def test_a_zip_that_lies_about_its_size(tmp_path):
    archive = write_zip(tmp_path / "x.zip", [("zeros", bytes(3_000_000))])
    content = archive.read_bytes()
    size = (3_000_000).to_bytes(4, "little")
    assert content.count(size) == 2
    archive.write_bytes(content.replace(size, (10).to_bytes(4, "little")))
    assert "x.zip" in refused(archive, tmp_path)


@pytest.mark.parametrize("content", [b"", b"<html>no archive", bytes(600)])
def test_no_archive(tmp_path, content):
    archive = tmp_path / "x.tgz"
    archive.write_bytes(content)
    assert "fetch it again" in refused(archive, tmp_path)


def test_an_encrypted_zip(tmp_path):
    archive = write_zip(tmp_path / "x.zip", [("a.txt", b"secret")])
    content = bytearray(archive.read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(content)
    assert "encrypted" in refused(archive, tmp_path)


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    archive = write_zip(tmp_path / "x.zip", FILES.items())
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("mine")
    with pytest.raises(DataError, match="is there already and was not made from"):
        extract_archive(archive, into=tmp_path / "out")
    assert found(tmp_path / "out") == {"mine.txt": b"mine"}
    with pytest.raises(DataError, match="no such archive"):
        extract_archive(tmp_path / "y.zip", into=tmp_path / "new")


@pytest.mark.parametrize("kind", WRITERS)
def test_a_killed_extraction_is_made_whole(tmp_path, kind):
    random = np.random.default_rng(0)
    entries = {f"folder/{number:04d}.bin": random.bytes(3000) for number in range(3000)}
    archive = WRITERS[kind](tmp_path / kind, entries.items())
    command = [sys.executable, "-m", "recap", "data", "extract", str(archive), "--into", str(tmp_path / "out")]
    hidden = tmp_path / ".out.part"
    for last in ("0100", "1500"):
        child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while not (hidden / f"folder/{last}.bin").exists():
            assert child.poll() is None
            time.sleep(0.001)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        assert not (tmp_path / "out").exists()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == entries
    assert not hidden.exists()
