"""Pickles of others, read without running anything: numbers, texts and containers; classes become `Opaque`.

Nothing is imported for a name in the file. A name that a file of settings or words has no use for is refused, and so is
a file that is larger, or nested deeper, than such files are.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from recap.core.errors import ConfigError, MissingSettings, first_line

MAX_BYTES = 64 * 2**20
MAX_TUPLES = 10_000  # a deeply nested key costs the interpreter's stack when it is hashed
_MEMO = ("PUT", "BINPUT", "LONG_BINPUT")  # their argument is a place in a table that grows up to it
# What such files name beside plain values. All of them become `Opaque`, but for the two kinds of dictionaries.
OPAQUE = {
    "argparse.Namespace",
    "collections.Counter",
    "data.vocab.Vocab",
    "data.vocab._default_unk_index",
    "copy_reg._reconstructor",
    "copyreg._reconstructor",
    "__builtin__.object",
    "builtins.object",
    "_codecs.encode",
    "numpy.dtype",
    "numpy.ndarray",
    *(f"numpy.{core}.multiarray.{name}" for core in ("core", "_core") for name in ("scalar", "_reconstruct")),
}
_DICTIONARIES = {"collections.OrderedDict": OrderedDict, "collections.defaultdict": None}


class Opaque:
    """Stands for an object of a class that is not imported.

    Attributes:
        arguments: what its constructor would have been given.
        state: what its attributes would have been.
    """

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = {}

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __getitem__(self, name: str) -> Any:
        return self.state[name]


class _Dictionary(OrderedDict[Any, Any]):
    """A `defaultdict` without its factory."""

    def __init__(self, *_: Any) -> None:
        super().__init__()


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if full in _DICTIONARIES:
            return _DICTIONARIES[full] or _Dictionary
        if full in OPAQUE:
            return Opaque
        raise pickle.UnpicklingError(f"names {full!r}, which could run code")


def read_plain_pickle(path: Path) -> Any:
    """Return what a pickle of settings or words holds.

    Raises:
        ConfigError: the file is missing, damaged, too large, or names something that could run code.
    """
    if not path.is_file():
        raise MissingSettings(f"{path}: no such file")
    if path.stat().st_size > MAX_BYTES:
        raise ConfigError(f"{path}: has more than {MAX_BYTES // 2**20} MiB, which no file of settings or words has")
    content = path.read_bytes()
    try:
        _check(pickletools.genops(content))
        return _Reader(io.BytesIO(content), encoding="latin-1").load()
    except (pickle.UnpicklingError, ValueError, EOFError, LookupError, TypeError, AttributeError, MemoryError) as error:
        raise ConfigError(
            f"{path}: cannot be read as settings or words ({first_line(error)}); fetch the release's own file again"
        ) from error


def _check(operations: Iterable[tuple[pickletools.OpcodeInfo, Any, int | None]]) -> None:
    """Refuse what makes a reader take much memory or stack."""
    tuples = 0
    for number, (operation, argument, _) in enumerate(operations):
        if operation.name in _MEMO and argument > number:
            raise ValueError(f"place {argument} of the memo is used before there are as many values")
        tuples += "TUPLE" in operation.name
        if tuples > MAX_TUPLES:
            raise ValueError(f"has more than {MAX_TUPLES:,} tuples")
