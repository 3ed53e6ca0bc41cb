"""What all settings share."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Strict(BaseModel):
    """Refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


def neutral(default: Any, **options: Any) -> Any:
    """Return a field that specs and identities leave out while it has its default.

    Every optional key that is added to a class whose runs may be finished somewhere is declared so: what was made
    before the key then stays what it is. Such a default is a promise: it may never change, because nothing would be
    rerun (`tests/golden/identities.json` lists them).

    Args:
        default: the value that means "as before this key existed".
        options: of ``pydantic.Field``.
    """
    return Field(default, exclude_if=lambda value: bool(value == default), **options)
