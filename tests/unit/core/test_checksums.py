import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from helpers.refusals import refused
from recap.core import checksums
from recap.core.errors import ChangedFile, DamagedFile

NAMES = [".", "..", "a/b", "x" * 5000, "a\0b"]


def test_a_changed_file_is_refused_and_a_foreign_one_passes(tmp_path):
    file = tmp_path / "a b|ü.json"
    file.write_text("one")
    checksums.check(file)
    checksums.record(file)
    checksums.check(file)
    file.write_text("onf")
    with refused(ChangedFile, file):
        checksums.check(file)
    checksums.record(file)
    checksums.check(file)


def test_the_list_is_what_sha256sum_reads_and_without_files_that_are_gone(tmp_path):
    files = [tmp_path / name for name in ("b", "a c")]
    for file in files:
        file.write_text(file.name)
    checksums.record(*files)
    subprocess.run(["sha256sum", "--check", "--strict", checksums.NAME], cwd=tmp_path, check=True)
    files[1].unlink()
    checksums.record(files[0])
    assert list(checksums.recorded(tmp_path)) == ["b"]


def test_jobs_that_finish_together_lose_no_line(tmp_path):
    files = [tmp_path / str(number) for number in range(40)]
    for file in files:
        file.write_text(file.name)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(checksums.record, files))
    assert sorted(checksums.recorded(tmp_path)) == sorted(file.name for file in files)


@pytest.mark.parametrize(
    "line",
    ["", "x" * 64 + "  a", "0" * 64 + " a", *("0" * 64 + "  " + name for name in ("", *NAMES))],
)
def test_a_damaged_list_is_refused(tmp_path, line):
    (tmp_path / checksums.NAME).write_text(line + "\n")
    with refused(DamagedFile, "line 1"):
        checksums.recorded(tmp_path)
