"""An environment in a folder of any name starts in any locale."""

import os
import subprocess
import sys
import venv

from helpers.tiny_workspace import ROOT


def test_python_starts_in_a_clone_with_an_umlaut_where_the_locale_is_not_there(tmp_path):
    clone = tmp_path / "klön é"
    (clone / "src").mkdir(parents=True)
    (clone / "src" / "recap.py").write_text("")
    venv.create(clone / ".venv", with_pip=False)
    (packages,) = (clone / ".venv").glob("lib/python*/site-packages")
    pth = packages / "__editable__.recap-0.1.0.pth"
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
