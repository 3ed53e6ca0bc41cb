"""Files from outside that would take any memory:
refused in one sentence under the limit that commands set."""

import gzip
import multiprocessing
import resource
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from helpers.refusals import refused
from recap.core.errors import RecapError
from recap.core.process import LEAST_MEMORY, limited_memory
from recap.data.caption_files import read_texts
from recap.data.files.archives import unpack
from recap.data.files.entries import read_jsons
from recap.runs.released import read_options

ROOM = 2**28  # bytes beside those of the process
BIG = 2**29


def in_pieces(stream, piece=b"a" * 2**20):
    for _ in range(BIG // len(piece)):
        stream.write(piece)


def header_of_a_tar(path):
    entry = tarfile.TarInfo("pax")
    entry.type, entry.size = tarfile.XHDTYPE, BIG
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(entry.tobuf(tarfile.USTAR_FORMAT))
        in_pieces(stream)


def json_in_a_zip(path):
    packed = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with packed as archive, archive.open("captions_a.json", "w") as stream:
        in_pieces(stream, b"[" + b" " * (2**20 - 1))


def line_without_an_end(path):
    with gzip.open(path, "wb", compresslevel=1) as stream:
        in_pieces(stream)


def pickle_of_a_memo(path):
    path.write_bytes(b"\x80\x02]r" + (2**31 - 1).to_bytes(4, "little") + b".")


CASES = {
    "a.tgz": (header_of_a_tar, lambda path: unpack(path, into=path.with_name("out"))),
    "a.zip": (json_in_a_zip, lambda path: read_jsons(path)),
    "a.txt.gz": (line_without_an_end, lambda path: list(read_texts(path))),
    "a.pkl": (pickle_of_a_memo, read_options),
}

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is Linux's")


def with_little_memory(work, *arguments):
    """Run in a child process that has little memory beside what it has already."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    limit = int(status["VmData"].split()[0]) * 1024 + ROOM

    def limited():
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        work(*arguments)

    child = multiprocessing.get_context("fork").Process(target=limited)
    child.start()
    child.join(120)
    assert child.exitcode == 0


def refuse(read, path):
    with refused(RecapError, path):
        read(path)


@pytest.mark.parametrize("name", CASES)
def test_a_file_that_needs_more_memory_than_it_gets_is_refused(tmp_path, name):
    write, read = CASES[name]
    write(tmp_path / name)
    with_little_memory(refuse, read, tmp_path / name)


def map_whole(path):
    assert np.memmap(path, mode="r")[-1] == 0
    with pytest.raises(MemoryError):
        bytearray(BIG)


def test_maps_of_large_files_are_not_counted(tmp_path):
    with (tmp_path / "store").open("wb") as file:
        file.truncate(2**33)
    with_little_memory(map_whole, tmp_path / "store")


def test_the_limit_is_taken_back_and_never_above_one_that_is_there(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_DATA)
    weights = tmp_path / "weights"
    with weights.open("wb") as file:
        file.truncate(2**43)
    with limited_memory():
        soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
        assert soft >= LEAST_MEMORY
        with limited_memory(weights):
            assert resource.getrlimit(resource.RLIMIT_DATA)[0] == soft
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    with limited_memory(weights):
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] > 2**43
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
