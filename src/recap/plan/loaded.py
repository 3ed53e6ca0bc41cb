"""Parameter files as config objects: each is loaded once, under the part of a path that stands for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recap.core.errors import ConfigError
from recap.plan.variants import Variant
from recap.settings import Recipe
from recap.settings.params import base_files, load_named


class LoadedFiles:
    """The files of ``params/`` that a plan names, and the models and recipes that its rows change.

    Attributes:
        params: the folder ``params/``.
    """

    def __init__(self, params: Path) -> None:
        self.params = params
        self._files: dict[tuple[str, str], Any] = {}
        self._variants: dict[tuple[str, str], Variant] = {}
        self._variants_loaded: dict[str, Any] = {}
        self._same_pictures: dict[str, str] = {}

    def asked_by(self, section: str, name: str, who: str) -> Any:
        """Return a config object; an error also names the table, row or profile that asks for it."""
        try:
            return self.get(section, name)
        except ConfigError as error:
            raise type(error)(f"{error} (asked for by {who})") from error

    def variant_loaded(self, variant: Variant, who: str) -> Any:
        """Return the config object of a model or recipe with changes; rows that name the same share one."""
        key = repr(variant)
        if key not in self._variants_loaded:
            try:
                self._variants_loaded[key] = variant.load(self.params)
            except ConfigError as error:
                raise type(error)(f"{error} (asked for by {who})") from error
        return self._variants_loaded[key]

    def get(self, section: str, name: str) -> Any:
        """Return the config object of a part of a path, or of a file of ``params/`` by its name, loaded once."""
        if (section, name) not in self._files:
            self._files[section, name] = load_named(self.params, section, name)
        return self._files[section, name]

    def spec(self, section: str, name: str) -> dict[str, Any]:
        """Return a config object as plain JSON values, complete with defaults."""
        values: dict[str, Any] = self.get(section, name).model_dump(mode="json")
        return values

    def same_pictures(self, dataset: str) -> str:
        """Return the name of the lowest base of a data set that has the same pictures; looked up once."""
        if dataset not in self._same_pictures:
            bases = [Path(source).stem for source, _ in base_files(self.params, "datasets", dataset)]
            pictures = self.get("datasets", dataset).pictures()
            equal = (name for name in bases if self.get("datasets", name).pictures() == pictures)
            self._same_pictures[dataset] = next(equal)
        return self._same_pictures[dataset]

    def variant(self, section: str, name: str) -> Variant:
        """Return a part of a path as file and changes."""
        return self._variants.get((section, name), Variant(section, name))

    def resolve_with_sources(self, section: str, name: str) -> dict[str, tuple[Any, str]]:
        """Return the values behind a part of a path by dotted key, each with its source.

        The source is a file of ``params/``, a key of the scale, a row of a table, or ``default (MODULE)``.
        """
        return self.variant(section, name).with_sources(self.params)

    def source(self, section: str, name: str) -> str:
        """Return the source of a part of a path: the row or scale that changes it, or its file."""
        variant = self.variant(section, name)
        return variant.layers(self.params)[-1].source

    def add_variant(self, variant: Variant, who: str) -> None:
        """Load a model or recipe with changes, which is known by its name from now on."""
        key = (variant.section, variant.name)
        loaded = self.variant_loaded(variant, who)
        if self._files.setdefault(key, loaded) != loaded:
            raise ConfigError(f"{who}: {variant.section} {variant.name!r} has two meanings; rename one file")
        self._variants[key] = variant

    def recipe(self, name: str) -> Recipe:
        """Return a recipe by name."""
        recipe: Recipe = self.get("recipes", name)
        return recipe
