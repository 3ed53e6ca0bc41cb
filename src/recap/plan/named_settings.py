"""The parameter files that the rows of a plan name, each read once."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any

from recap.core.errors import ConfigError
from recap.plan.variants import Variant
from recap.settings import Recipe
from recap.settings.datasets import DatasetConfig, Subset
from recap.settings.features import FeaturesConfig
from recap.settings.models import LanguageModel, ModelConfig
from recap.settings.params import base_files, load_named


class NamedSettings:
    """Config objects by section and name.

    The name is that of a file, or that of a row's variant of one, which is a part of paths.
    """

    def __init__(self, params: Path) -> None:
        self.params = params
        self._loaded: dict[tuple[str, str], Any] = {}
        self._variants: dict[tuple[str, str], Variant] = {}
        self._of_variants: dict[str, Any] = {}
        self._same_pictures: dict[str, str] = {}
        self._shared: dict[tuple[str, ...], str] = {}

    def get(self, section: str, name: str) -> Any:
        """Return the config object of a name."""
        if (section, name) not in self._loaded:
            self._loaded[section, name] = load_named(self.params, section, name)
        return self._loaded[section, name]

    def dataset(self, name: str) -> DatasetConfig:
        """Return the settings of a data set."""
        return self.get("datasets", name)

    def subset(self, name: str) -> Subset:
        """Return the settings of a subset."""
        return self.get("subsets", name)

    def features(self, name: str) -> FeaturesConfig:
        """Return the settings of features."""
        return self.get("features", name)

    def model(self, name: str) -> ModelConfig:
        """Return the settings of a model."""
        return self.get("models", name)

    def language_model(self, name: str) -> LanguageModel:
        """Return the settings of a language model."""
        return self.get("language_models", name)

    def recipe(self, name: str) -> Recipe:
        """Return a recipe."""
        return self.get("recipes", name)

    def load(self, variant: Variant) -> Any:
        """Return the config object of a variant; equal ones share it."""
        key = repr(variant)
        if key not in self._of_variants:
            self._of_variants[key] = variant.load(self.params)
        return self._of_variants[key]

    def add(self, variant: Variant) -> None:
        """Make a variant known by its name."""
        key, loaded = (variant.section, variant.name), self.load(variant)
        if self._loaded.setdefault(key, loaded) != loaded:
            raise ConfigError(
                f"{variant.section} {variant.name!r} has two meanings; rename one file"
            )
        self._variants[key] = variant

    def variant(self, section: str, name: str) -> Variant:
        """Return a name as file and changes."""
        return self._variants.get((section, name), Variant(section, name))

    def same_pictures(self, dataset: str) -> str:
        """Return the name of the lowest base of a data set that has the same pictures."""
        if dataset not in self._same_pictures:
            pictures = self.dataset(dataset).pictures()
            bases = base_files(self.params, "datasets", dataset)
            names = [Path(source).stem for source, _ in bases]
            equal = [name for name in names if self.dataset(name).pictures() == pictures]
            self._same_pictures[dataset] = equal[0]
        return self._same_pictures[dataset]

    def shared_recipe(self, recipe: str, *keys: str) -> str:
        """Return the name of the lowest base of a recipe that equals it in ``keys`` (dotted)."""
        if (recipe, *keys) not in self._shared:
            same = attrgetter(*keys)
            files = base_files(self.params, "recipes", self.variant("recipes", recipe).base)
            lowest = recipe
            for source, _ in reversed(files):
                base = Path(source).stem
                if same(self.recipe(base)) != same(self.recipe(recipe)):
                    break
                lowest = base
            self._shared[recipe, *keys] = lowest
        return self._shared[recipe, *keys]
