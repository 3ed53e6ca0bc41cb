"""One process at a time: who comes second waits, says so, and not for ever."""

import subprocess
import sys
import time

from helpers.refusals import refused
from recap.core.errors import InUse, RecapError
from recap.core.files import exclusive

HOLD = """
import sys, time
from pathlib import Path
from recap.core.files import exclusive
with exclusive(Path(sys.argv[1]), wait_seconds=0, what="it"):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def hold(path, seconds):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path), str(seconds)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    return holder


def test_the_second_waits_says_so_and_goes_on_when_the_first_ends(tmp_path, capsys):
    holder = hold(tmp_path / "deep" / "lock", 2)
    with exclusive(tmp_path / "deep" / "lock", wait_seconds=20, what="the store"):
        assert holder.wait(5) == 0
    assert f"the store is in use by process {holder.pid}: waiting for it, at most 20 s" in capsys.readouterr().err


def test_a_wait_ends_in_one_sentence(tmp_path):
    holder = hold(tmp_path, 30)
    start = time.monotonic()
    with (
        refused(InUse, "the folder"),
        exclusive(tmp_path, wait_seconds=0.3, what="the folder"),
    ):
        pass
    assert time.monotonic() - start < 5
    holder.kill()
    holder.wait()


def test_a_lock_dies_with_its_process(tmp_path, capsys):
    holder = hold(tmp_path, 30)
    holder.kill()
    holder.wait()
    with exclusive(tmp_path, wait_seconds=0, what="the folder"):
        pass
    assert capsys.readouterr().err == ""


def test_a_lock_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        refused(RecapError, "file/x"),
        exclusive(tmp_path / "file" / "x", wait_seconds=0, what="x"),
    ):
        pass
