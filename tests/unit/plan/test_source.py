"""A job's digest covers what the job runs: no layout,
no words of messages, no names of files, no other jobs."""

import inspect
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from recap.plan import source
from recap.plan.source import EVALUATION, MACHINERY, PICTURES, TRAINING, code_digest, reached
from recap.settings.metrics import METRICS
from recap.settings.models import MODELS
from recap.settings.recipes import EvaluationSpec, Execution, RunSpec

pytestmark = pytest.mark.seconds

LAYER = '''"""What it is."""

from math import tau  # a turn

from toy.core import log
from toy.errors import ShapeError
from toy.numbers import SCALE


class Layer:
    """A layer.

    Of several lines.
    """

    size: int = 3

    def forward(self, x: float, y: float) -> tuple[float]:
        """Return it."""
        if x > SCALE:
            raise ShapeError(f"{x} is too large")
        log.info("forward")
        name = f"{x:.{self.size}f} and {y!r}"
        return (x * tau + len(name),)
'''
NUMBERS = "SCALE = 1.5\nSHIFT = 2\n\n\ndef unused():\n    return SHIFT\n"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Return a function that writes the modules
    of a package `toy` and returns the digest of its `job`."""
    monkeypatch.setattr(source, "_PACKAGE", tmp_path / "toy")
    caches = (source._parsed, source._resolve_name, source._resolved_names)

    def digest(**modules):
        for cached in caches:
            cached.cache_clear()
        source.DIGESTS.clear()
        for file in tmp_path.rglob("*.py"):
            file.unlink()
        files = {
            "job": "from toy.layer import Layer\n\n\ndef run():\n    return Layer()\n",
            "layer": LAYER,
        } | {
            "numbers": NUMBERS,
            "core": "log = None\n",
            "errors": "class ShapeError(Exception):\n    pass\n",
        }
        for name, text in (files | modules).items():
            if text is not None:
                path = tmp_path / "toy" / f"{name}.py"
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
        return code_digest("toy.job:run")

    monkeypatch.setattr(source, "MACHINERY", ())
    yield digest
    for cached in caches:
        cached.cache_clear()
    source.DIGESTS.clear()


def replaced(text, old, new):
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    "old, new",
    [
        ("  # a turn", ""),
        ("A layer.", "Another layer."),
        ("x * tau + len(name)", "x  *  tau  +  len( name )"),
        ("self, x: float, y: float", "\n        self,\n        x: float,\n        y: float,\n    "),
        ("x: float", "x: int"),
        ("is too large", "exceeds the scale"),
    ],
)
def test_comments_docstrings_layout_types_and_messages_do_not_count(toy, old, new):
    assert toy(layer=replaced(LAYER, old, new)) == toy()


@pytest.mark.parametrize(
    "old, new",
    [
        ("size: int = 3", "size: int = 4"),
        ("x * tau", "tau * x"),
        ("(x * tau + len(name),)", "(x * tau + len(name))"),
        (".{self.size}f", ".{self.size}g"),
        ("raise ShapeError", "raise ValueError"),
        ("from math import tau", "from math import pi as tau"),
        ('name = f"', '"not a docstring"; name = f"'),
        ("SCALE = 1.5", "SCALE = 1.6"),
    ],
)
def test_what_is_computed_counts(toy, old, new):
    name, text = ("numbers", NUMBERS) if old in NUMBERS else ("layer", LAYER)
    assert toy(**{name: replaced(text, old, new)}) != toy()


def test_a_move_to_another_file_changes_nothing(toy):
    elsewhere = replaced(LAYER, "toy.numbers", "toy.scales")
    assert toy(layer=elsewhere, numbers=None, scales="SCALE = 1.5\n") == toy()
    renamed = "from toy.papers import Layer\n\n\ndef run():\n    return Layer()\n"
    assert toy(job=renamed, layer=None, papers=LAYER) == toy()


def test_two_definitions_of_one_name_that_change_places_count(toy):
    job = "from toy.{0} import f\nfrom toy.{1} import f as g\n\n\ndef run():\n    return f(g(1))\n"
    both = {"a": "def f(x):\n    return x + 1\n", "b": "def f(x):\n    return x * 2\n"}
    assert toy(job=job.format("a", "b"), **both) != toy(job=job.format("b", "a"), **both)


def test_fields_of_settings_do_not_count_and_their_methods_do(toy):
    settings = (
        "from pydantic import BaseModel\n\n\nclass Base(BaseModel):\n    pass\n\n\n"
        "class Settings(Base):\n    width: int = 3\n\n    def rate(self):\n        return 2 * "
        "self.width\n"
    )
    job = (
        "from toy.settings import Settings\n\n\ndef run(settings: Settings):\n    return "
        "settings.rate()\n"
    )
    before = toy(job=job, settings=settings)
    assert toy(job=job, settings=replaced(settings, "int = 3", "int = 4")) == before
    assert toy(job=job, settings=replaced(settings, "2 * self.width", "3 * self.width")) != before


def test_imports_inside_functions_and_of_modules_count(toy):
    job = "def run():\n    from toy import numbers\n\n    return numbers.SCALE\n"
    assert toy(job=job, numbers=NUMBERS) != toy(job=job, numbers=replaced(NUMBERS, "1.5", "1.6"))
    assert toy(job=job, numbers=NUMBERS) == toy(job=job, numbers=replaced(NUMBERS, "= 2", "= 3"))


def test_what_is_left_out_is_not_followed():
    places = reached([TRAINING], without=["recap.training.objectives"])
    assert "recap.training.loop" in {module for module, _ in places}
    assert "recap.training.objectives" not in {module for module, _ in places}
    assert ("recap.decoding.sampling", "sample") not in places


def test_a_model_is_followed_only_where_it_is_named():
    assert not any(
        module.startswith("recap.papers.zodiac.model") for module, _ in reached([TRAINING])
    )
    model = MODELS.get("zodiac").implementation, MODELS.target("zodiac")
    modules = {module for module, _ in reached([TRAINING, *model])}
    assert {
        "recap.papers.zodiac.model",
        "recap.papers.transformer.model",
        "recap.papers.zodiac.settings",
    } <= modules
    assert "recap.papers.xlan.model" not in modules


def test_a_metric_that_is_added_is_in_the_digest_of_evaluations_that_name_it_alone(tmp_path):
    copy = tmp_path / "recap"
    shutil.copytree(source._PACKAGE, copy)
    register = copy / "settings" / "__init__.py"
    added = 'METRICS.register("Length", "recap.metrics.length:Length")\n\nSECTIONS'
    register.write_text(replaced(register.read_text(), "SECTIONS", added))
    (copy / "metrics" / "length.py").write_text("class Length:\n    names = ('Length',)\n")
    code = "from recap.plan.source import EVALUATION, job_code\nimport sys\n"
    code += "print(job_code(EVALUATION, 'zodiac', metrics=sys.argv[1:]))\n"

    def digest(root, *metrics):
        command = [sys.executable, "-c", code, *metrics]
        environment = {**os.environ, "PYTHONPATH": str(root)}
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True
        ).stdout

    before = digest(source._PACKAGE.parent, "CIDEr")
    assert digest(tmp_path, "CIDEr") == before
    assert digest(tmp_path, "CIDEr", "Length") != before


def test_an_unknown_name_is_refused():
    for start in ("recap.training.runn", "recap.training.run:trane", "nowhere.job"):
        with pytest.raises(LookupError, match=start.rpartition(":")[2]):
            code_digest(start)
    with pytest.raises(LookupError, match="recap.models.registri"):
        code_digest(TRAINING, without=["recap.models.registri"])


# Settings are built and checked by the first three,
# which pydantic calls; the last makes the line of the log.
CARRIERS = (
    "recap.settings.base",
    "recap.settings.kinds",
    "recap.settings.models",
    "recap.settings.metrics",
)
NOAM = {"kind": "noam", "factor": 1.0, "warmup": 10}


@pytest.fixture(scope="module")
def folder(prepare):
    return prepare().folder


@pytest.mark.parametrize(
    "kind, stage, settings",
    [
        (
            "xlan",
            "xe",
            {
                "schedule": NOAM,
                "scheduled_sampling": {"interval": 1, "increment": 0.5},
                "epochs": 2,
            },
        ),
        ("transformer", "scst", {"learning_rate": 0.001, "samples": 2}),
    ],
)
def test_every_function_that_a_training_and_an_evaluation_run_is_in_their_digests(
    folder, kind, stage, settings
):
    from recap.evaluation.decode import evaluate
    from recap.training.run import train

    run = folder / kind / stage / "run"
    names = dict.fromkeys(("dataset", "subset", "features", "model", "recipe"), "tiny")
    values = {
        **names,
        "seed": 1,
        "stage": stage,
        "model_settings": MODELS.classes()[kind].example(),
        "stage_settings": {"epochs": 1, "images_per_batch": 4, **settings},
    }
    common = {
        "execution": Execution(device="cpu", threads=1),
        "corpus": folder / "corpus.parquet",
        "vocabulary": folder / "vocabulary.json",
        "features": [folder / "features.h5"],
    }
    ran = traced(
        train,
        **common,
        spec=TypeAdapter(RunSpec).validate_python(values),
        subset=folder / "subset.json",
        init=None,
        state=run.parent / "state",
        out=run,
    )
    assert ("recap.training.loop", "Training") in ran
    assert not missed(ran, TRAINING, kind)

    metrics = ["BLEU", "CIDEr"]
    spec = EvaluationSpec(
        evaluation={"metrics": metrics, "beam": 2, "max_length": 5, "split": "test"}
    )
    ran = traced(evaluate, **common, spec=spec, model=[run], out=run.parent / "scores")
    assert ("recap.decoding.beam", "beam_search") in ran
    assert not missed(ran, EVALUATION, kind, metrics)


def missed(ran, start, kind, metrics=()):
    """Return what ran, but is neither covered by a job's digest nor left out of it on purpose."""
    model = MODELS.get(kind).implementation, MODELS.target(kind)
    covered = reached([start, *model, *map(METRICS.target, metrics)], PICTURES)
    modules = {module for module, _ in covered}
    left_out = (*MACHINERY, *PICTURES, *CARRIERS)
    return {
        (module, name)
        for module, name in ran - covered
        if not any(f"{module}.{name}.".startswith(f"{each}.") for each in left_out)
        and not (name.startswith("<") and module in modules)  # a lambda of a module's table
    }


def traced(call, **arguments):
    """Return the top-level definitions of the package whose code a call runs, in all threads."""
    package = source._PACKAGE
    ran = set()

    def note(frame, event, _):
        code = frame.f_code
        # What the body of a class or module runs depends on which test imports it first.
        imported = frame.f_back is not None and frame.f_back.f_code.co_name == "<module>"
        is_function = code.co_flags & inspect.CO_OPTIMIZED and not imported
        if event == "call" and is_function and code.co_filename.startswith(f"{package}/"):
            path = Path(code.co_filename).relative_to(package.parent).with_suffix("")
            module = ".".join(path.parts).removesuffix(".__init__")
            ran.add((module, code.co_qualname.partition(".")[0]))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        call(**arguments)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return ran
