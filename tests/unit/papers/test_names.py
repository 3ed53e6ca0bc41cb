"""A paper is one folder: nothing outside of it names it, and each may be the first that is imported."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import recap
from recap import papers

pytestmark = pytest.mark.seconds

SOURCE = Path(recap.__file__).parent
PAPERS = sorted(path.parent.name for path in Path(papers.__file__).parent.glob("*/__init__.py"))
NAMES = re.compile(
    r"visual.?gpt|xlan|x-lan|x_?transformer|zodiac|\bacf\b|clustformer|aoanet|fusion|up_down|\bm2\b", re.I
)
ALLOWED = {
    "features/formats.py": "the name of a file format",
    "models/gpt2.py": "`fusion`, the part of a GPT-2 block that joins words and image",
}


def test_no_paper_is_named_outside_of_its_folder():
    files = [file for ending in ("py", "js") for file in SOURCE.rglob(f"*.{ending}")]
    named = {file.relative_to(SOURCE).as_posix() for file in files if NAMES.search(file.read_text(encoding="utf-8"))}
    assert {name for name in named if not name.startswith("papers/")} == set(ALLOWED)


@pytest.mark.parametrize("paper", PAPERS)
def test_a_paper_may_be_the_first_that_is_imported_and_brings_no_torch(paper):
    code = f"import recap.papers.{paper}, sys; from recap.settings.models import model_configs; print(*model_configs())"
    done = subprocess.run([sys.executable, "-c", f"{code}; assert 'torch' not in sys.modules"], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert len(done.stdout.split()) >= len(PAPERS)
