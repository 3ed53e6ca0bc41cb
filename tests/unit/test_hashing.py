"""A job's digest covers what the job runs, and no more: neither comments, docstrings and layout nor other jobs."""

import ast
import json
import sys

import pytest

from recap.core import hashing
from recap.core.config.models import source_module
from recap.core.hashing import code_digest, imported
from recap.core.module_source import module_source
from recap.core.tokens import source_tokens

MODULE = '''"""What it is."""

from math import tau  # a turn


class Layer:
    """A layer.

    Of several lines.
    """

    size: int = 3

    def forward(self, x: float, y: float) -> tuple[float]:
        """Return it."""
        name = f"{x:.{self.size}f} and {y!r}"
        return (x * tau + len(name),)
'''

# What is read of a module is kept for the length of a process.
CACHED = (hashing._imports, hashing._code_digest, module_source)


def tokens(source):
    return list(source_tokens(source, ast.parse(source)))


@pytest.mark.parametrize(
    "old, new",
    [
        ("  # a turn", ""),
        ("A layer.", "Another layer."),
        ('        """Return it."""\n', ""),
        ('"""Return it."""', '"""Return "it"."""  # with care'),
        ('"""Return it."""', '"Return " "it."'),
        ("\n\n\nclass", "\nclass"),
        ("x * tau + len(name)", "x  *  tau  +  len( name )"),
        ("self, x: float, y: float", "\n        self,\n        x: float,\n        y: float,\n    "),
        ("len(name)", "len(\n            name,\n        )"),
        ("(x * tau + len(name),)", "(\n            x * tau + len(name),\n        )"),
    ],
)
def test_comments_docstrings_and_layout_do_not_count(old, new):
    changed = MODULE.replace(old, new)
    assert changed != MODULE
    ast.parse(changed)
    assert tokens(changed) == tokens(MODULE)


@pytest.mark.parametrize(
    "old, new",
    [
        ("size: int = 3", "size: int = 4"),
        ("x * tau", "tau * x"),
        ("(x * tau + len(name),)", "(x * tau + len(name))"),
        (".{self.size}f", ".{self.size}g"),
        ("        return", "    return"),
        ('name = f"', '"not a docstring"; name = f"'),
    ],
)
def test_what_is_computed_counts(old, new):
    assert old in MODULE
    assert tokens(MODULE.replace(old, new)) != tokens(MODULE)


def test_a_tuple_of_one_in_a_pattern_or_a_subscript_keeps_its_comma():
    assert tokens("match x:\n    case (a,):\n        pass\n") != tokens("match x:\n    case (a):\n        pass\n")
    assert tokens("x[a,]\n") != tokens("x[a]\n")
    assert tokens("x = [a, b,]\n") == tokens("x = [a, b]\n")


def test_an_f_string_is_one_token_on_every_python():
    assert tokens('f"{x:{y}} {f(1)}" + g\n') == ['f"{x:{y}} {f(1)}"', "+", "g", "\n"]


def test_one_number_in_a_layer_changes_the_digest_of_what_uses_it_alone(tmp_path, monkeypatch):
    (tmp_path / "layers").mkdir()
    (tmp_path / "layers" / "scale.py").write_text("SCALE = 1.5\n")
    for name in ("uses", "does_not"):
        (tmp_path / f"{name}.py").write_text("from recap.layers.scale import SCALE\n" * (name == "uses"))
    monkeypatch.setattr(hashing, "_PACKAGE", tmp_path)

    def digests():
        for known in CACHED:
            known.cache_clear()
        return code_digest("uses"), code_digest("does_not")

    before = digests()
    (tmp_path / "layers" / "scale.py").write_text("# of Table 3\nSCALE = 1.5\n")
    assert digests() == before
    (tmp_path / "layers" / "scale.py").write_text("SCALE = 1.6\n")
    after = digests()
    assert after[0] != before[0] and after[1] == before[1]
    monkeypatch.undo()
    for known in CACHED:
        known.cache_clear()


def test_training_depends_on_its_layers_and_random_numbers_but_not_on_tables_or_tracking():
    files = imported("training/job", "models/zodiac")
    assert {"training/loop", "models/zodiac", "layers/attention", "metrics/cider_d", "core/seeding"} <= files
    assert not {"tracking/publish", "reporting/tables", "metrics/coco"} & files
    assert not any(file.startswith("core/config") for file in files)


def test_what_is_left_out_is_not_followed():
    files = imported("training/job", without=["training/objectives/self_critical"])
    assert "training/loop" in files
    assert not {"training/objectives/self_critical", "metrics/bleu_ids"} & files


def test_a_model_is_followed_only_where_it_is_named():
    assert not {"models/transformer", "models/zodiac", "layers/zoneup"} & imported("training/job")
    files = imported("training/job", source_module("transformer"))
    assert "models/transformer" in files and not {"models/zodiac", "layers/zoneup"} & files
    assert {"models/zodiac", "models/transformer"} <= imported(source_module("zodiac"))


def test_imports_inside_functions_count():
    assert "training/job" in imported("cli/train")


def test_the_digest_is_that_of_the_files():
    assert code_digest("training/job") == code_digest("training/job", "training/loop")
    assert code_digest("training/job") != code_digest("training/job", without=["training/loop"])


def test_a_module_outside_of_the_package_has_its_dotted_name():
    assert imported("helpers.generators") >= {"helpers.generators"}


def test_an_unknown_module_is_refused():
    with pytest.raises(FileNotFoundError, match="training/jobb"):
        code_digest("training/jobb")
    with pytest.raises(FileNotFoundError, match="models/registri"):
        code_digest("training/job", without=["models/registri"])


@pytest.fixture
def read_anew(tmp_path):
    """Read a module as another process would, and give the file beside it that keeps what was read."""
    file = tmp_path / "layer.py"

    def read(text):
        file.write_text(text)
        module_source.cache_clear()
        return module_source(file)

    read.kept = tmp_path / "__pycache__" / f"layer.{sys.implementation.cache_tag}.source.json"
    yield read
    module_source.cache_clear()


def test_what_was_read_of_a_module_is_kept_until_its_text_changes(read_anew, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    first = read_anew(MODULE)
    assert first.names == ["math", "math.tau"]
    assert json.loads(read_anew.kept.read_text())["digest"] == first.digest
    with monkeypatch.context() as patch:
        patch.setattr("recap.core.tokens.source_tokens", lambda *_: pytest.fail("read again"))
        assert read_anew(MODULE) == first
    assert read_anew(MODULE.replace("a turn", "turn")) == first
    assert read_anew(MODULE.replace("x * tau", "tau * x")).digest != first.digest


@pytest.mark.parametrize("damaged", ["", "{", "[]", '"x"', '{"digest": "0"}', '{"key": 1, "digest": "0", "names": []}'])
def test_damaged_notes_about_a_module_are_not_believed(read_anew, monkeypatch, damaged):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    first = read_anew(MODULE)
    read_anew.kept.write_text(damaged)
    assert read_anew(MODULE) == first


def test_nothing_is_kept_where_python_keeps_no_bytecode(read_anew, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert read_anew(MODULE).digest
    assert not read_anew.kept.exists()
