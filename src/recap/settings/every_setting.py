"""Every setting of a config object, also those that specs and hashes leave out while they have their default."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from recap.settings.params import flat


def every_setting(config: BaseModel) -> dict[str, tuple[Any, str]]:
    """Return each value as plain JSON by its key (``xe.epochs``), with the module of the class that has its default."""
    found: dict[str, tuple[Any, str]] = {}
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if field.exclude:  # a note, or another spelling of a key that is here
            continue
        if isinstance(value, BaseModel):
            found |= {f"{name}.{key}": setting for key, setting in every_setting(value).items()}
        else:
            module = next(kind.__module__ for kind in type(config).__mro__ if name in kind.__annotations__)
            found |= {key: (leaf, module) for key, leaf in flat({name: to_jsonable_python(value)}).items()}
    return found
