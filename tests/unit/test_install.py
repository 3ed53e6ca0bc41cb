"""The wheel has all files; an environment in a folder of any name starts in any locale."""

import os
import shutil
import subprocess
import sys
import venv
from email import message_from_bytes
from zipfile import ZipFile

import pytest
import yaml

from helpers.tiny_workspace import ROOT
from recap.core.version import DISTRIBUTION, VERSION


@pytest.mark.seconds
def test_the_wheel_has_our_name_and_version_and_all_files(tmp_path):
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
    source = shutil.copytree(ROOT / "src", tmp_path / "src", ignore=left_out)
    files = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    # The build needs no network: torch brings setuptools.
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "."]
    subprocess.run(command, cwd=tmp_path, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as archive:
        assert files <= set(archive.namelist())
        (metadata,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        fields = message_from_bytes(archive.read(metadata))
    assert (fields["Name"], fields["Version"]) == (DISTRIBUTION, VERSION)


def test_the_citation_is_of_this_version():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == VERSION


def test_python_starts_in_a_clone_with_an_umlaut_where_the_locale_is_not_there(tmp_path):
    clone = tmp_path / "klön é"
    (clone / "src").mkdir(parents=True)
    (clone / "src" / "recap.py").write_text("")
    venv.create(clone / ".venv", with_pip=False)
    (packages,) = (clone / ".venv").glob("lib/python*/site-packages")
    pth = packages / "__editable__.recap_captions-0.2.0.pth"
    pth.write_text(f"{clone / 'src'}\n", encoding="utf-8")

    def start():
        locale = {**os.environ, "LC_ALL": "xx_XX.UTF-8"}  # no machine has it
        return subprocess.run(
            [clone / ".venv/bin/python", "-c", "import recap"], env=locale, capture_output=True
        )

    if sys.version_info < (3, 13):
        assert b"UnicodeDecodeError" in start().stderr
    subprocess.run(
        [sys.executable, ROOT / "requirements/relative_pth.py", ".venv"], cwd=clone, check=True
    )
    assert pth.read_bytes().isascii()
    assert (start().returncode, start().stderr) == (0, b"")
