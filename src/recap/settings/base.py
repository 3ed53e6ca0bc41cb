"""What all settings share: refusal of unknown keys, file names, sizes, checks of several keys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from recap.core.errors import nearest


class Strict(BaseModel):
    """Refuses unknown keys."""

    # Validators are built at their first use: a command has use for few of them.
    model_config = ConfigDict(extra="forbid", protected_namespaces=(), defer_build=True)


def omitted_at_default(default: Any, **options: Any) -> Any:
    """Return a field that specs and identities leave out while it has its default.

    Every optional key that is added to a class whose runs may be finished somewhere is declared so:
    what was made before the key then stays what it is. Such a default is a promise: it may never
    change, because nothing would be rerun (`tests/golden/identities.json` lists them).
    """
    return Field(default, exclude_if=lambda value: bool(value == default), **options)


# A number in a YAML file is memory or time in a job. Beyond these limits it is a mistake: a model
# of a billion layers would be built for ever before the first job.
Layers = Annotated[PositiveInt, Field(le=100)]
LayersOr0 = Annotated[NonNegativeInt, Field(le=100)]
# of vectors; also heads, slots and positions, each a row of a table
Width = Annotated[PositiveInt, Field(le=16_384)]
WidthOr0 = Annotated[NonNegativeInt, Field(le=16_384)]
Edge = Annotated[PositiveInt, Field(le=4096)]  # of a picture, in pixels
Cells = Annotated[PositiveInt, Field(le=256)]  # of a grid, per edge
Probability = Annotated[float, Field(ge=0, lt=1)]
Precision = Annotated[
    Literal["float32", "bf16", "auto"],
    Field(description="auto: bf16 where the processor has units for it"),
]
Id = Annotated[str, Field(pattern=r"^[a-z0-9_.]+$")]  # of a row, or of a part of a table


@dataclass(frozen=True)
class Outside:
    """Marks a text as the path of an outside file or folder.

    The words in `but` mean something else.
    """

    but: tuple[str, ...] = ()


@dataclass(frozen=True)
class NoFile:
    """Marks a text that is no path: the name of a model, a pattern."""


OutsideFile = Annotated[str, Outside()]  # relative to the profile's `inputs`
Name = Annotated[str, NoFile()]
HUB = "hub:"  # begins a text that names weights or a tokenizer of the HuggingFace hub


class NamesFiles(Strict):
    """Settings that may name outside files, which jobs of the workflow declare as their inputs."""

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        """Refuse a text not said to be a file or none: a forgotten file is no job's input."""
        super().__pydantic_init_subclass__(**options)
        for name, field in cls.model_fields.items():
            marks = [*field.metadata, *_parts(field.annotation)]
            if str in marks and not any(isinstance(mark, Outside | NoFile) for mark in marks):
                raise TypeError(
                    f"{cls.__name__}.{name}: annotate it as OutsideFile if it is the path of a "
                    f"file or folder, else as Name ({__name__})"
                )

    def named_files(self) -> dict[str, list[str]]:
        """Return the outside files and folders of the settings, by key, without those left out."""
        files = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            values = value if isinstance(value, list) else [value]
            for mark in (*field.metadata, *_parts(field.annotation)):
                if isinstance(mark, Outside):
                    files[name] = [
                        text for text in values if text is not None and text not in mark.but
                    ]
        return files

    def outside_files(self) -> list[str]:
        """Return the outside files and folders that the result depends on, relative to `inputs`."""
        return [file for files in self.named_files().values() for file in files]


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield the types and marks that an annotation is made of."""
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part)


def reject_if(when: Callable[[Any], Any], sentence: str) -> Any:
    """Return a validator that refuses settings of which ``when`` is true.

    ``{key}`` in the sentence is a value.
    """

    def check(settings: Any) -> Any:
        if when(settings):
            raise ValueError(sentence.format_map(vars(settings)))
        return settings

    return model_validator(mode="after")(check)


def only_with(key: str, *, when: tuple[str, Any], required: bool = True) -> Any:
    """Return a validator: a key is set only where another has a value.

    With ``required`` it is always set there.
    """
    other, value = when

    def differ(settings: Any) -> bool:
        fits = getattr(settings, other) == value
        is_set = _is_set(settings, key)
        return is_set != fits if required else is_set and not fits

    return reject_if(differ, f"`{key}` goes with {other} {value!r}, and with no other")


def exactly_one(*keys: str) -> Any:
    """Return a validator: one of some keys is set, and no other of them."""
    return reject_if(
        lambda settings: _number_set(settings, keys) != 1, f"give one of `{'`, `'.join(keys)}`"
    )


def all_or_none(*keys: str) -> Any:
    """Return a validator: some keys are set together."""
    wrong = range(1, len(keys))
    return reject_if(
        lambda settings: _number_set(settings, keys) in wrong,
        f"give all or none of `{'`, `'.join(keys)}`",
    )


def _number_set(settings: Any, keys: tuple[str, ...]) -> int:
    return sum(_is_set(settings, key) for key in keys)


def _is_set(settings: BaseModel, key: str) -> bool:
    """Return whether a key has another value than its default.

    One without a default is not set where it is null.
    """
    field = type(settings).model_fields[key]
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    return bool(getattr(settings, key) != default)


def check_known(where: str, names: Iterable[str], known: Collection[str]) -> None:
    """Refuse a name that is not known, with the nearest one."""
    for name in names:
        if name not in known:
            raise ValueError(f"{where}: there is no {name!r}; {nearest(name, known)}")


def check_distinct(what: str, ids: list[str]) -> None:
    """Refuse an id that two of something have."""
    duplicate = next((name for name in ids if ids.count(name) > 1), None)
    if duplicate is not None:
        raise ValueError(f"two {what} have the id {duplicate!r}; give each a different id")
