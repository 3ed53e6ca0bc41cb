"""Files: one process at a time, and one sentence for whatever a library says of a foreign one."""

import subprocess
import sys
import time
import zipfile
import zlib
from struct import error as StructError

import pytest

from helpers.refusals import refused
from recap.core.errors import (
    ConfigError,
    DamagedData,
    DamagedFeatures,
    DataError,
    FeatureError,
    InUse,
    MissingSettings,
)
from recap.core.files import exclusive, reading

HOLD = """
import sys, time
from pathlib import Path
from recap.core.files import exclusive
with exclusive(Path(sys.argv[1]), wait_seconds=0, what="it"):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def hold(path, seconds):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), str(seconds)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    return holder


def test_the_second_waits_says_so_and_goes_on_when_the_first_ends(tmp_path, capsys):
    holder = hold(tmp_path / "deep" / "lock", 2)
    with exclusive(tmp_path / "deep" / "lock", wait_seconds=20, what="the store"):
        assert holder.wait(5) == 0
    assert (
        "the store is in use by another process: waiting for it, at most 20 s"
        in capsys.readouterr().err
    )


def test_a_wait_ends_in_one_sentence(tmp_path):
    holder = hold(tmp_path / "lock", 30)
    start = time.monotonic()
    with (
        refused(InUse, "the folder"),
        exclusive(tmp_path / "lock", wait_seconds=0.3, what="the folder"),
    ):
        pass
    assert time.monotonic() - start < 5
    holder.kill()
    holder.wait()
    # a lock dies with its process
    with exclusive(tmp_path / "lock", wait_seconds=0, what="the folder"):
        pass


@pytest.mark.parametrize(
    "error",
    [
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
        ValueError("two\nlines"),
        EOFError(),
        KeyError("images"),
        zipfile.BadZipFile("no zip"),
        zlib.error("cut off"),
        StructError("4 bytes"),
        MemoryError(),
        RecursionError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        OSError("a library's own"),
    ],
)
def test_whatever_a_library_raises_over_a_foreign_file_is_one_sentence(tmp_path, error):
    path = tmp_path / "a.zip"
    with refused(DamagedData, path, "fetch it again"), reading(path, damaged="fetch it again"):
        raise error


def test_a_refusal_is_of_the_room_and_one_made_within_passes(tmp_path):
    with refused(MissingSettings, tmp_path / "a.yaml"), reading(tmp_path / "a.yaml", ConfigError):
        (tmp_path / "a.yaml").read_text()
    with refused(DataError, tmp_path), reading(tmp_path):
        tmp_path.read_text()
    with refused(DamagedFeatures, "f.h5"), reading("f.h5", FeatureError):
        raise ValueError
    for mistake in (InUse("mine"), TypeError("ours")):
        with pytest.raises(type(mistake)), reading("f.h5"):
            raise mistake
