"""Which texts of the settings are files or folders of the user, relative to the profile's `inputs`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, get_args

from pydantic import model_validator

from recap.settings.base import Strict


@dataclass(frozen=True)
class Outside:
    """Marks a text as the path of an outside file or folder; the words in `but` mean something else."""

    but: tuple[str, ...] = ()


@dataclass(frozen=True)
class NoFile:
    """Marks a text that is no path: the name of a model, a pattern."""


OutsideFile = Annotated[str, Outside()]
Name = Annotated[str, NoFile()]


class NamesFiles(Strict):
    """Settings that may name outside files, which jobs of the workflow declare as their inputs.

    Attributes:
        renamed_keys: old name of a key -> its name now; a file with the old one is told the new one.
    """

    renamed_keys: ClassVar[dict[str, str]] = {}

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Refuse a text that does not say whether it is a file: a forgotten one would be no job's input.

        Raises:
            TypeError: names the field.
        """
        super().__pydantic_init_subclass__(**options)
        for name, field in cls.model_fields.items():
            marks = [*field.metadata, *_parts(field.annotation)]
            if str in marks and not any(isinstance(mark, Outside | NoFile) for mark in marks):
                raise TypeError(
                    f"{cls.__name__}.{name}: annotate it as OutsideFile if it is the path of a file or folder, else as "
                    "Name (recap.settings.outside)"
                )

    @model_validator(mode="before")
    @classmethod
    def _refuse_old_keys(cls, values: Any) -> Any:
        for old, new in cls.renamed_keys.items():
            if isinstance(values, dict) and old in values:
                raise ValueError(f"the key {old!r} is called {new!r} now; rename it")
        return values

    def named_files(self) -> dict[str, list[str]]:
        """Return the outside files and folders that the settings name, by key, without those left out."""
        found = {}
        for name, field in type(self).model_fields.items():
            marks = [*field.metadata, *_parts(field.annotation)]
            value = getattr(self, name)
            values = value if isinstance(value, list) else [value]
            for mark in marks:
                if isinstance(mark, Outside):
                    found[name] = [text for text in values if text is not None and text not in mark.but]
        return found

    def outside_files(self) -> list[str]:
        """Return the outside files and folders that the result depends on, relative to `inputs`."""
        return [file for files in self.named_files().values() for file in files]


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield the types and marks that an annotation is made of."""
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part)
