"""A registry finds what is registered with it,
classes of settings and objects in other modules, and nothing twice."""

from typing import Annotated, Literal

import pytest

from helpers.refusals import refused
from recap.core.documents import adapter
from recap.core.errors import ConfigError, UnknownName
from recap.settings.base import Strict
from recap.settings.kinds import VARIABLE, Registry, load_plugins


class Circle(Strict):
    kind: Literal["circle"]
    radius: float = 1.0


class Ring(Circle):
    kind: Literal["ring"]
    hole: float = 0.5


def test_objects_are_imported_when_they_are_asked_for():
    registry = Registry(
        "metric", {"Ratio": "fractions:Fraction", "Broken": "no_such_module:Metric"}
    )
    registry.register("Decimal", "decimal:Decimal")
    registry.register("Decimal", "decimal:Decimal")
    assert (
        registry.names() == ["Ratio", "Broken", "Decimal"]
        and registry.get("Decimal").__name__ == "Decimal"
    )
    assert registry.target("Ratio") == "fractions:Fraction" and registry.classes() == {}
    with refused(ConfigError, "no_such_module"):
        registry.get("Broken")
    with refused(UnknownName, "metric", "'Rato'", "'Ratio'", "RECAP_PLUGINS"):
        registry.get("Rato")
    with refused(ConfigError, "'Ratio'", "fractions:Fraction", "decimal:Decimal"):
        registry.register("Ratio", "decimal:Decimal")


def test_an_annotation_is_the_union_of_the_classes():
    shapes = Registry("kind of shape")
    assert (
        shapes.register(Circle) is Circle
        and shapes.register(Ring) is Ring
        and shapes.register(Ring) is Ring
    )
    shape = adapter(Annotated[Strict, shapes]).validate_python({"kind": "ring", "radius": 2})
    assert shape == Ring(kind="ring", radius=2)
    assert shapes.classes() == {"circle": Circle, "ring": Ring} and shapes.get("ring") is Ring
    assert shapes.lineage(Ring) == ["ring", "circle"]


def test_a_kind_has_one_class():
    shapes = Registry("kind of shape")
    shapes.register(Circle)

    class Other(Strict):
        kind: Literal["circle"]

    with refused(ConfigError, "'circle'", "Circle", "Other"):
        shapes.register(Other)


def test_the_modules_that_the_variable_names_are_imported_once(tmp_path, monkeypatch):
    for name in ("first_plugin", "second_plugin"):
        (tmp_path / f"{name}.py").write_text(
            f"open({str(tmp_path / 'log')!r}, 'a').write('{name} ')\n"
        )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(VARIABLE, "first_plugin, second_plugin,")
    load_plugins()
    load_plugins()
    assert (tmp_path / "log").read_text() == "first_plugin second_plugin "


@pytest.mark.parametrize(
    ("name", "source", "named"),
    [
        ("no_such_plugin", "", ["PYTHONPATH"]),
        ("../x", "", []),
        (
            "broken_plugin",
            "import recap\nx = (\n",
            ["broken_plugin.py", "line 2", "SyntaxError: '(' was never closed"],
        ),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_one_sentence(
    tmp_path, monkeypatch, name, source, named
):
    if source:
        (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(VARIABLE, name)
    with refused(ConfigError, VARIABLE, repr(name), *named):
        load_plugins()
