"""What the disk refuses is one sentence, and a killed write leaves nothing for ever."""

import errno
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from helpers import refusals
from recap.core.documents import read_json, write_json
from recap.core.errors import RecapError
from recap.core.files import atomic_path

PROLOGUE = """
import sys
from pathlib import Path
from recap.core.files import atomic_path
from recap.core.errors import DamagedFile, RecapError
folder = Path(sys.argv[1])
"""


def python(script, *arguments, before=()):
    return subprocess.run(
        [*before, sys.executable, "-c", PROLOGUE + textwrap.dedent(script), *map(str, arguments)],
        capture_output=True,
        text=True,
    )


def on_small_disk(script, folder, options):
    """Run a script with ``folder`` as a disk of its own, which only this script sees."""
    if not shutil.which("unshare"):
        pytest.skip("no `unshare` to make a small disk with")
    mount = f'mount -t tmpfs -o {options} none "$0" && exec "$@"'
    done = python(script, folder, before=("unshare", "-rm", "sh", "-c", mount, str(folder)))
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no small disk can be made here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


WRITERS = {
    "torch": "import torch; torch.save({'a': torch.zeros(10**6)}, part)",
    "safetensors": (
        "import torch; from safetensors.torch import save_file; save_file({'a': "
        "torch.zeros(10**6)}, part)"
    ),
    "python": "part.write_bytes(bytes(10**6))",
    "pillow": "import numpy; from PIL import Image; "
    "Image.fromarray(numpy.random.randint(0, 255, (900, 900), 'uint8')).save(part, format='PNG')",
}
WRITING = """
    try:
        with atomic_path(folder / "{name}") as part:
            {writing}
    except RecapError as error:
        print(error)
    print(sorted(folder.glob("*out*")))
"""
LIMIT = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))"
READ_ONLY = 'import subprocess; subprocess.run(["mount", "-o", "remount,ro", folder], check=True)'
SLOW = ("torch", "safetensors")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in WRITERS]
)
def test_a_full_disk_is_named_whatever_the_library_says_of_it(tmp_path, name):
    said = on_small_disk(WRITING.format(name="out", writing=WRITERS[name]), tmp_path, "size=300k")
    assert said.startswith(f"{tmp_path}/out: the disk is full") and said.endswith("\n[]")


@pytest.mark.parametrize(
    ("options", "before", "reason"),
    [
        ("nr_inodes=2", "", "the disk is full, or has no room for more files"),
        ("size=300k", READ_ONLY, "cannot be written (read-only file system)"),
        ("size=900k", LIMIT, "cannot be written (file too large)"),
    ],
)
def test_a_disk_that_refuses_is_one_sentence(tmp_path, options, before, reason):
    script = WRITING.format(name="a/out", writing="part.write_bytes(bytes(400_000))")
    said = on_small_disk(f"    {before}\n{script}", tmp_path, options)
    assert said.startswith(f"{tmp_path}/a/out: {reason}") and said.endswith("\n[]")


def test_files_and_folders_in_each_others_place(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for place in ("file/out.json", "file/a/out.json", "folder", "x" * 300):
        with refusals.refused(RecapError, tmp_path / place, "cannot be written"):
            write_json(tmp_path / place, {})
    with refusals.refused(RecapError, "/proc/no/out.json", "cannot be written"):
        write_json("/proc/no/out.json", {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    with refusals.refused(RecapError, "folder: ", "Is a directory"):
        read_json(tmp_path / "folder")


def test_errors_of_other_causes_and_other_files_stay_as_they_are(tmp_path):
    with pytest.raises(RuntimeError, match="a mistake"), atomic_path(tmp_path / "out"):
        raise RuntimeError("a mistake")
    other = OSError(errno.EACCES, "no", str(tmp_path / "another"))
    with pytest.raises(PermissionError, match="another"), atomic_path(tmp_path / "out"):
        raise other
    assert list(tmp_path.iterdir()) == []


SLOW_WRITE = """
import time
with atomic_path(folder / "out.db") as part:
    Path(f"{part}-journal").write_text("x")
    print(part, flush=True)
    time.sleep(60)
"""


def test_only_the_parts_of_dead_writers_are_removed(tmp_path):
    command = [sys.executable, "-c", PROLOGUE + SLOW_WRITE, str(tmp_path)]
    killed, living = (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)
    )
    try:
        dead, alive = killed.stdout.readline().strip(), living.stdout.readline().strip()
        (tmp_path / ".other.db.abcdefgh.part").write_text("of another file")
        killed.kill()
        killed.wait()
        assert Path(dead).exists()
        write_json(tmp_path / "out.db", {})
        left = {str(path) for path in tmp_path.iterdir()}
        assert left == {
            f"{tmp_path}/.other.db.abcdefgh.part",
            f"{tmp_path}/out.db",
            alive,
            f"{alive}-journal",
        }
    finally:
        for process in (killed, living):
            process.kill()
            process.communicate()


def test_writers_of_one_file_at_once_leave_a_whole_file_and_nothing_else(tmp_path):
    script = """
        from recap.core.documents import write_json
        for number in range(200):
            write_json(folder / "out.json", {"number": number, "long": "x" * 5000})
    """
    command = [sys.executable, "-c", PROLOGUE + textwrap.dedent(script), str(tmp_path)]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(3)]
    end = time.monotonic() + 60
    while any(writer.poll() is None for writer in writers) and time.monotonic() < end:
        if (tmp_path / "out.json").exists():
            assert len(read_json(tmp_path / "out.json")["long"]) == 5000
    assert [writer.communicate()[1] for writer in writers] == [b""] * 3
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]
