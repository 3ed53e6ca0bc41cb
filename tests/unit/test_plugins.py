import pytest

from recap.core.errors import ConfigError
from recap.core.plugins import VARIABLE, Registry, load_plugins, module_of, resolve


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
    with pytest.raises(ConfigError, match="RECAP_PLUGINS: 'no_such_plugin' cannot be imported .* PYTHONPATH"):
        load_plugins()


def test_a_registry_imports_on_use_and_suggests_names():
    registry = Registry("metric", {"Ratio": "fractions:Fraction", "Broken": "no_such_module:Metric"})
    registry.register("Decimal", "decimal:Decimal")
    assert registry.names() == ["Ratio", "Broken", "Decimal"]
    assert registry.get("Ratio").__name__ == "Fraction"
    with pytest.raises(ConfigError, match="unknown metric 'Ration'; did you mean 'Ratio'?"):
        registry.get("Ration")
    with pytest.raises(ConfigError, match="no_such_module:Metric: there is no module 'no_such_module'"):
        registry.get("Broken")
    with pytest.raises(ConfigError, match="metric 'Ratio' is registered as fractions:Fraction"):
        registry.register("Ratio", "decimal:Decimal")


def test_a_target_without_its_object_is_refused():
    with pytest.raises(ConfigError, match="has no attribute 'Fractoin'"):
        resolve("fractions:Fractoin")
    with pytest.raises(ConfigError, match="does not have the form module:object"):
        resolve("fractions")


def test_modules_of_the_package_are_named_as_source_digests_name_them():
    assert module_of("recap.data.datasets.coco:build") == "data/datasets/coco"
    assert module_of("toy.readers:build") == "toy.readers"
