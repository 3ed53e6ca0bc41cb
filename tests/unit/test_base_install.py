"""Without its extras, recap captions a photo.

A command that needs one of them says so in a sentence.
"""

import re
import subprocess
import sys
from importlib.metadata import packages_distributions, requires

import pytest

from recap.core.version import DISTRIBUTION

pytestmark = pytest.mark.seconds

# As if what only the extras need were not installed: its import fails.
WITHOUT = "import sys\nsys.modules.update(dict.fromkeys({missing!r}))\n"


def needed(distribution, extra=""):
    """Return the names of what a distribution requires, without extras or for one of them."""
    markers = [text.partition(";") for text in requires(distribution) or []]
    chosen = [
        name
        for name, _, marker in markers
        if (f'extra == "{extra}"' in marker if extra else "extra" not in marker)
    ]
    return {plain(re.match(r"[\w.-]+", name)[0]) for name in chosen}


def plain(name):
    return name.lower().replace("_", "-")


@pytest.fixture(scope="module")
def without():
    """The beginning of a script in which nothing but the base install can be imported."""
    modules = {
        module: {plain(name) for name in names}
        for module, names in packages_distributions().items()
    }
    installed = set().union(*modules.values())
    base, todo = set(), needed(DISTRIBUTION)
    while todo:
        base |= todo
        todo = {name for each in todo & installed for name in needed(each)} - base
    extras = (
        set().union(*(needed(DISTRIBUTION, extra) for extra in ("workflow", "tracking", "studies")))
        - base
    )
    missing = {module for module, names in modules.items() if names & extras and not names & base}
    assert {"snakemake", "dvc", "mlflow", "statsmodels", "pyarrow"} <= missing
    return WITHOUT.format(missing=missing)


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


CODE = """import recap
from recap.models.base import build_model
from recap.models.images import InputSpec
from recap.settings.models import MODELS
for config in MODELS.classes().values():
    build_model(config.example(), InputSpec(config.example_streams, vocabulary_size=9))
"""


def test_every_model_is_built_and_a_photo_captioned(without, results, photo, captioner):
    done = run(
        f"{without}{CODE}print(recap.load({str(results.run)!r}, device='cpu')({str(photo)!r}))\n"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == captioner(photo)


def test_a_command_that_needs_more_says_so(without, results):
    command = ["recap", "data", "overlap", "--corpus", str(results.data / "corpus.parquet")]
    done = run(f"{without}sys.argv = {command!r}\nfrom recap.cli import main\nmain()\n")
    assert done.returncode == 2
    assert done.stderr.endswith(
        "is not installed; install all of recap: pip install "
        "'recap-captions[workflow,tracking,studies]'\n"
    )


def test_the_doctor_needs_no_extras(without):
    done = run(f"{without}sys.argv = ['recap', 'doctor']\nfrom recap.cli import main\nmain()\n")
    assert done.returncode == 0, done.stderr
    assert "SPICE is 'not run' in every table" in done.stdout
