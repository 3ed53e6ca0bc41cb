"""Hostile, broken and interrupted archives: everything in the folder or nothing, and one
sentence."""

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

from helpers import refusals
from recap.core.errors import DataError, MissingData
from recap.data.files.archives import unpack

FILES = {
    "top.txt": b"top",
    "a/one.bin": bytes(range(256)) * 40,
    "a/b/two.bin": b"",
    "./c/three.txt": b"three",
}


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
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize("name", WRITERS)
def test_a_whole_archive(tmp_path, name):
    archive = WRITERS[name](tmp_path / name, FILES.items())
    assert unpack(archive, into=tmp_path / "out") == len(FILES)
    assert found(tmp_path / "out") == {
        key.removeprefix("./"): value for key, value in FILES.items()
    }
    marked = (tmp_path / "out/top.txt").stat().st_ino
    assert unpack(archive, into=tmp_path / "out") == len(FILES)
    assert (tmp_path / "out/top.txt").stat().st_ino == marked
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", name]


def refused(archive, tmp_path, **options):
    with pytest.raises(DataError) as caught:
        unpack(archive, into=tmp_path / "deep/out", **options)
    text = str(caught.value)
    assert archive.name in text
    assert "\n" not in text
    assert not list((tmp_path / "deep").iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", archive.name]
    return text


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize(
    "name",
    [
        *("/etc/recap", "../out.txt", "a/../../out.txt", "..", "a\\..\\b", "C:/out.txt"),
        *("a\nb", "a\x1b[2Jb", "a\u202eb", "a\u200bb"),
    ],
)
def test_unsafe_names(tmp_path, kind, name):
    archive = WRITERS[kind](tmp_path / kind, [("good.txt", b"x"), (name, b"x")])
    assert "do not use this archive" in refused(archive, tmp_path)


SAME_PLACE = [
    *(("a/b.txt", "a/b.txt"), ("a/b.txt", "./a/b.txt")),
    # one file on disks that ignore case or forms
    *(("a/B.txt", "A/b.txt"), ("caf\u00e9.txt", "cafe\u0301.txt")),
    *(("a", "a/b"), ("a/b", "a"), ("a", "A/b/c")),  # a file that is also a folder
]


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize("names", SAME_PLACE)
def test_names_that_have_one_place_on_some_disks(tmp_path, kind, names):
    archive = WRITERS[kind](tmp_path / kind, [(name, b"one") for name in names])
    assert "have the same place" in refused(archive, tmp_path)


@pytest.mark.parametrize("kind", WRITERS)
def test_names_that_are_too_long(tmp_path, kind):
    archive = WRITERS[kind](tmp_path / kind, [("\u00e4" * 128, b"one")])
    assert "(255 bytes)" in refused(archive, tmp_path)
    archive = WRITERS[kind](tmp_path / kind, [("/".join(["a" * 200] * 21), b"one")])
    assert "(255 bytes)" in refused(archive, tmp_path)


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE]
)
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
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999, "flipped"])
def test_truncated_or_with_a_flipped_byte(tmp_path, kind, share):
    random = np.random.default_rng(0)
    archive = WRITERS[kind](
        tmp_path / kind, [(f"{number}.bin", random.bytes(5000)) for number in range(20)]
    )
    content = bytearray(archive.read_bytes())
    if share == "flipped":
        content[len(content) // 2] ^= 0xFF
    archive.write_bytes(content if share == "flipped" else content[: int(share * len(content))])
    assert "truncated or damaged" in refused(archive, tmp_path)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_declared_total_beyond_the_limit(tmp_path, kind):
    archive = WRITERS[kind](
        tmp_path / kind, [(f"{number}.bin", bytes(400_000)) for number in range(3)]
    )
    assert "raise the limit with --limit-gb" in refused(archive, tmp_path, limit=1_000_000)
    assert unpack(archive, into=tmp_path / "deep/out", limit=1_200_000) == 3


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


@pytest.mark.parametrize(
    ("place", "value", "sentence"), [(6, 1, "is encrypted"), (8, 99, "in a way that is not")]
)
def test_a_zip_that_is_encrypted_or_packed_otherwise_is_not_called_damaged(
    tmp_path, place, value, sentence
):
    archive = write_zip(tmp_path / "x.zip", [("a.txt", b"secret")])
    content = bytearray(archive.read_bytes())
    content[place] = content[content.index(b"PK\x01\x02") + place + 2] = value
    archive.write_bytes(content)
    said = refused(archive, tmp_path)
    assert sentence in said
    assert "fetch it again" not in said


def test_what_is_there_is_kept_and_something_else_refused(tmp_path):
    archive = write_zip(tmp_path / "x.zip", FILES.items())
    (tmp_path / "out/a").mkdir(parents=True)
    (tmp_path / "out/mine.txt").write_text("mine")
    (tmp_path / "out/top.txt").write_text("TOP")
    assert unpack(archive, into=tmp_path / "out") == len(FILES)
    assert found(tmp_path / "out")["mine.txt"] == b"mine"
    assert found(tmp_path / "out")["top.txt"] == b"TOP"
    assert found(tmp_path / "out")["a/one.bin"] == FILES["a/one.bin"]
    (tmp_path / "out/top.txt").write_text("another size")
    with refusals.refused(DataError, "out/top.txt", "'top.txt'", "x.zip"):
        unpack(archive, into=tmp_path / "out")
    with refusals.refused(MissingData, "y.zip"):
        unpack(tmp_path / "y.zip", into=tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "x.zip"]


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize(
    ("members", "places"),
    [
        ("pack/deep/*.tsv", ["a.tsv", "b.tsv"]),
        ("pack/deep/a.*", ["a.lineidx", "a.tsv"]),
        ("pack/*/a.tsv", ["deep/a.tsv"]),
        ("*.tsv", ["pack/deep/a.tsv", "pack/deep/b.tsv"]),
        ("pack/deep/b.tsv", ["b.tsv"]),
    ],
)
def test_members_are_chosen_by_a_glob_whose_leading_folders_are_left_out(
    tmp_path, kind, members, places
):
    names = ("pack/deep/a.tsv", "./pack/deep/b.tsv", "pack/deep/a.lineidx", "pack/readme.txt")
    archive = WRITERS[kind](tmp_path / kind, [(name, name.encode()) for name in names])
    assert unpack(archive, into=tmp_path / "out", members=members) == len(places)
    assert sorted(found(tmp_path / "out")) == places
    with refusals.refused(DataError, "'other/*'"):
        unpack(archive, into=tmp_path / "none", members="other/*")


@pytest.mark.parametrize("kind", WRITERS)
def test_a_killed_extraction_is_made_whole(tmp_path, kind):
    random = np.random.default_rng(0)
    entries = {f"folder/{number:04d}.bin": random.bytes(3000) for number in range(3000)}
    archive = WRITERS[kind](tmp_path / kind, entries.items())
    command = [
        sys.executable,
        "-m",
        "recap",
        "data",
        "extract",
        str(archive),
        "--into",
        str(tmp_path / "out"),
    ]
    hidden = tmp_path / ".out.part"
    times = {}
    for last in ("0100", "1500"):
        child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while not (hidden / f"files/folder/{last}.bin").exists():
            assert child.poll() is None
            time.sleep(0.001)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        assert not (tmp_path / "out").exists()
        times[last] = (hidden / "files/folder/0050.bin").stat().st_mtime_ns
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert found(tmp_path / "out") == entries
    # What had been written whole was not written again.
    assert set(times.values()) == {(tmp_path / "out/folder/0050.bin").stat().st_mtime_ns}
    assert not hidden.exists()


def test_what_was_unpacked_of_another_archive_is_not_gone_on_from(tmp_path):
    left = tmp_path / ".out.part/files"
    left.mkdir(parents=True)
    (left / "a.txt").write_text("old")
    (left.parent / "archive.json").write_text('{"archive": "x.zip", "bytes": 1, "changed_ns": 1}')
    unpack(write_zip(tmp_path / "x.zip", [("a.txt", b"new")]), into=tmp_path / "out")
    assert found(tmp_path / "out") == {"a.txt": b"new"}
