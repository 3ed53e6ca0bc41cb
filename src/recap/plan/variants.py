"""A model or recipe as a row of a table names it: a file with its bases, what a scale replaces, what the row changes.

A variant has a name that can be part of a path, readable and unique: ``transformer+d_model=64,encoder_layers=2``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from recap.core.hashing import value_hash
from recap.settings import SECTIONS
from recap.settings.params import base_files, flat, merged, validate

LONGEST = 100  # bytes of a name; a model and a recipe make up one component of a path, of which Linux allows 255
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


@dataclass(frozen=True)
class Layer:
    """Values and their source, which override those of the layers below."""

    source: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Variant:
    """A parameter file with changes."""

    section: str  #: of ``params/``
    base: str  #: name of the file
    changes: tuple[Layer, ...] = ()  #: layers over the file, from general to particular
    #: what the name says beside the base; empty: the name is the base's
    shown: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The variant as part of a path."""
        return variant_name(self.base, self.shown)

    def layers(self, params: Path) -> list[Layer]:
        """Return everything that is laid over one another, the lowest base first."""
        files = [Layer(source, values) for source, values in base_files(params, self.section, self.base)]
        return [*files, *self.changes]

    def load(self, params: Path) -> Any:
        """Return the config object; each layer is checked on its own, so that an error names its source."""
        layers = self.layers(params)
        own = layers[: len(layers) - len(self.changes)]
        values = reduce(merged, (layer.values for layer in own))
        kind = SECTIONS[self.section]
        loaded = validate(kind, values, own[-1].source)
        for layer in self.changes:
            values = merged(values, layer.values)
            loaded = validate(kind, values, layer.source)
        return loaded

    def with_sources(self, params: Path) -> dict[str, tuple[Any, str]]:
        """Return each value by its key (``xe.epochs``) with its source: file, scale, row or ``default (MODULE)``."""
        values = reduce(merged, (_with_source(layer.values, layer.source) for layer in self.layers(params)))
        found = _every_setting(self.load(params))
        return {key: (value, _source(key, values) or f"default ({module})") for key, (value, module) in found.items()}


@dataclass(frozen=True)
class _Sourced:
    value: Any
    source: str = field(compare=False)  # `merged` compares kinds


def _with_source(values: dict[str, Any], source: str) -> dict[str, Any]:
    """Return a mapping in which each value has its source."""
    return {
        key: _with_source(value, source) if isinstance(value, dict) and value else _Sourced(value, source)
        for key, value in values.items()
    }


def _source(key: str, said: dict[str, Any]) -> str | None:
    """Return the source of a value, None for a default; a rate beside its schedule counts as within it."""
    found: Any = said
    for part in key.split("."):
        if isinstance(found, dict):
            found = found.get(part) or (found.get(int(part)) if part.isdigit() else None)
    if found is None and key.endswith(".schedule.learning_rate"):
        return _source(key.replace(".schedule.", "."), said)
    return found.source if isinstance(found, _Sourced) else None


def _every_setting(config: BaseModel) -> dict[str, tuple[Any, str]]:
    """Return each value as plain JSON by its key (``xe.epochs``), with the module of the class that has its default.

    Also what specs and hashes leave out while it has its default.
    """
    found: dict[str, tuple[Any, str]] = {}
    for name, info in type(config).model_fields.items():
        value = getattr(config, name)
        if info.exclude:  # a note, or another spelling of a key that is here
            continue
        if isinstance(value, BaseModel):
            found |= {f"{name}.{key}": setting for key, setting in _every_setting(value).items()}
        else:
            module = next(kind.__module__ for kind in type(config).__mro__ if name in kind.__annotations__)
            found |= {key: (leaf, module) for key, leaf in flat({name: to_jsonable_python(value)}).items()}
    return found


def variant_name(base: str, shown: dict[str, Any]) -> str:
    """Return ``base+key=value,key=value``, of characters that paths, shells and tables bear.

    A name that is long, or whose values had to be rewritten, ends with a hash of the changes.
    """
    if not shown:
        return base
    texts = {key: _text(value) for key, value in sorted(flat(shown).items())}
    name = f"{base}+{','.join(f'{key}={text}' for key, (text, _) in texts.items())}"
    if all(exact for _, exact in texts.values()) and len(name.encode()) <= LONGEST:
        return name
    digest = value_hash(shown)[:8]
    head = name.encode()[: LONGEST - len(digest) - 1].decode(errors="ignore")
    whole = head if head == name else head.rpartition(",")[0] or head.rpartition("+")[0]
    return f"{whole}+{digest}"


def _text(value: Any) -> tuple[str, bool]:
    """Return a value in characters that a path bears, and whether nothing was lost."""
    if isinstance(value, list):
        parts = [_text(item) for item in value]
        return "_".join(text for text, _ in parts), all(isinstance(item, int | float) for item in value)
    text = {None: "null", True: "true", False: "false"}[value] if isinstance(value, bool | None) else str(value)
    safe = _UNSAFE.sub("-", text)
    return safe, safe == text and not isinstance(value, dict)
