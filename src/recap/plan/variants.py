"""Parameter files with changes.

A row trains with a file, what a scale replaces in it, and what the row changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from recap.core.errors import ConfigError
from recap.core.hashing import value_hash
from recap.settings import SECTIONS
from recap.settings.params import base_files, flat, merged, validate

# bytes of a name; a model and a recipe make up one component of a path, of which Linux allows 255
LONGEST = 100
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")

Sourced = dict[str, tuple[Any, str]]  # dotted key -> value and source
# a source, and its values, which override those of the layers below
Layer = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Variant:
    """A parameter file with changes."""

    section: str  #: of ``params/``
    base: str  #: name of the file
    changes: tuple[Layer, ...] = ()  #: layers over the file, from general to particular
    shown: dict[str, Any] = field(default_factory=dict)  #: what the name says beside the base

    @property
    def name(self) -> str:
        """``base+key=value,key=value`` of characters that paths bear.

        Long or rewritten ones end with a hash.
        """
        if not self.shown:
            return self.base
        texts = {key: _text(value) for key, value in sorted(flat(self.shown).items())}
        name = f"{self.base}+{','.join(f'{key}={text}' for key, (text, _) in texts.items())}"
        if all(exact for _, exact in texts.values()) and len(name.encode()) <= LONGEST:
            return name
        digest = value_hash(self.shown)[:8]
        head = name.encode()[: LONGEST - len(digest) - 1].decode(errors="ignore")
        whole = head if head == name else head.rpartition(",")[0] or head.rpartition("+")[0]
        return f"{whole}+{digest}"

    def layers(self, params: Path) -> list[Layer]:
        """Return everything that is laid over one another, the lowest base first."""
        return [*base_files(params, self.section, self.base), *self.changes]

    def load(self, params: Path) -> Any:
        """Return the config object; an error names the lowest layer that is refused."""
        layers = self.layers(params)
        try:
            return self._validated(layers)
        except ConfigError:
            for end in range(len(layers) - len(self.changes), len(layers)):
                self._validated(layers[:end])
            raise

    def _validated(self, layers: list[Layer]) -> Any:
        values: dict[str, Any] = {}
        for _, changes in layers:
            values = merged(values, changes)
        return validate(SECTIONS[self.section], values, layers[-1][0])

    def with_sources(self, params: Path) -> Sourced:
        """Return each value by key (``xe.epochs``) with its source: file, scale, row, default."""
        values: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for source, changes in self.layers(params):
            values, own = merged(values, changes), flat(changes)
            sources = {key: source if key in own else sources[key] for key in flat(values)}
        settings = _every_setting(self.load(params))
        return {
            key: (value, _source(key, sources) or f"default ({where})")
            for key, (value, where) in settings.items()
        }


def _source(key: str, sources: dict[str, str]) -> str | None:
    """Return the source of a key or of what holds it; None for a default."""
    place = key
    while place and place not in sources:
        place = place.rpartition(".")[0]
    # a rate beside its schedule counts as within it
    if not place and key.endswith(".schedule.learning_rate"):
        return _source(key.replace(".schedule.", "."), sources)
    return sources.get(place)


def _every_setting(config: BaseModel) -> dict[str, tuple[Any, str]]:
    """Return each value as plain JSON by its key, with the module of its default.

    Also what specs leave out then.
    """
    settings: dict[str, tuple[Any, str]] = {}
    for name, info in type(config).model_fields.items():
        value = getattr(config, name)
        if info.exclude:  # a note, or another spelling of a key that is here
            continue
        if isinstance(value, BaseModel):
            settings |= {f"{name}.{key}": setting for key, setting in _every_setting(value).items()}
        else:
            module = next(
                kind.__module__ for kind in type(config).__mro__ if name in kind.__annotations__
            )
            settings |= {
                key: (leaf, module) for key, leaf in flat({name: to_jsonable_python(value)}).items()
            }
    return settings


def _text(value: Any) -> tuple[str, bool]:
    """Return a value in characters that a path bears, and whether nothing was lost."""
    if isinstance(value, list):
        return "_".join(_text(item)[0] for item in value), all(
            isinstance(item, int | float) for item in value
        )
    text = (
        {None: "null", True: "true", False: "false"}[value]
        if isinstance(value, bool | None)
        else str(value)
    )
    safe = _UNSAFE.sub("-", text)
    return safe, safe == text and not isinstance(value, dict)
