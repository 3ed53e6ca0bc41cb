"""Each paper may be the first that is imported, and brings no torch."""

import subprocess
import sys
from pathlib import Path

import pytest

from recap import papers

pytestmark = pytest.mark.seconds

PAPERS = sorted(path.parent.name for path in Path(papers.__file__).parent.glob("*/__init__.py"))
ANEW = """
import sys
from importlib import import_module
for paper in sys.argv[1:]:
    for name in [name for name in sys.modules if name.split(".")[0] == "recap"]:
        del sys.modules[name]
    import_module(f"recap.papers.{paper}")
    assert set(import_module("recap.settings.models").MODELS.classes()), paper
    assert "torch" not in sys.modules, paper
"""


def test_a_paper_may_be_the_first_that_is_imported_and_brings_no_torch():
    done = subprocess.run([sys.executable, "-c", ANEW, *PAPERS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
