"""The configuration that a release has beside its weights: a YAML file, or `infos` of a training as a pickle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from recap.core.documents import read_mapping
from recap.core.errors import ConfigError
from recap.data.files.pickles import read_plain_pickle


def read_options(path: Path) -> dict[str, Any]:
    """Return the options of a release; nested keys are joined by dots (`MODEL.BILINEAR.HEAD`)."""
    values = read_plain_pickle(path) if path.suffix == ".pkl" else read_mapping(path)
    if isinstance(values, Mapping) and isinstance(values.get("opt"), Mapping):
        values = values["opt"]
    if not isinstance(values, Mapping):
        raise ConfigError(f"{path}: holds no options; give the release's config.yml or infos pickle")
    return dict(_flat(values))


def has_words(path: Path) -> bool:
    """Return whether a release's configuration holds its vocabulary as well, as `infos` does."""
    if path.suffix != ".pkl":
        return False
    values = read_plain_pickle(path)
    return isinstance(values, Mapping) and "vocab" in values


def _flat(values: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
