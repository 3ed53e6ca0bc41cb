import pytest

from helpers.refusals import refused
from recap.core.errors import ConfigError, UnknownName
from recap.settings.kinds import VARIABLE, load_plugins, resolve


def test_the_modules_that_the_variable_names_are_imported(tmp_path, monkeypatch):
    for name in ("first_plugin", "second_plugin"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'log')!r}, 'a').write('{name} ')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(VARIABLE, "first_plugin, second_plugin,")
    load_plugins()
    load_plugins()
    assert (tmp_path / "log").read_text() == "first_plugin second_plugin "


def test_a_plugin_that_is_not_on_the_path_is_named(monkeypatch):
    monkeypatch.setenv(VARIABLE, "no_such_plugin")
    with refused(UnknownName, "RECAP_PLUGINS", "no_such_plugin", "PYTHONPATH"):
        load_plugins()


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("x = 1\n1 / 0\n", "ZeroDivisionError: division by zero"),
        ("import recap\nx = (\n", "SyntaxError: '(' was never closed"),
    ],
)
def test_a_plugin_with_an_error_of_its_own_is_one_sentence(tmp_path, monkeypatch, source, error):
    (tmp_path / "broken_plugin.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(VARIABLE, "broken_plugin")
    with refused(ConfigError, "RECAP_PLUGINS", "'broken_plugin'", "broken_plugin.py", "line 2", error):
        load_plugins()


@pytest.mark.parametrize("name", ["../x", "x.py/", ".x", "a-b"])
def test_a_plugin_is_a_name_as_in_an_import(monkeypatch, name):
    monkeypatch.setenv(VARIABLE, name)
    with refused(ConfigError, "RECAP_PLUGINS"):
        load_plugins()


def test_a_target_without_its_object_is_refused():
    with refused(UnknownName, "Fractoin"):
        resolve("fractions:Fractoin")
    with refused(ConfigError, "'fractions'", "module:object"):
        resolve("fractions")
