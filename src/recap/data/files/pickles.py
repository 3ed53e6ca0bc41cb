"""Pickles of others, read without running anything:
numbers, texts and containers; classes become `Opaque`.

Nothing is imported for a name in the file. A name that a file of settings or words has no use for
is refused.
"""

from __future__ import annotations

import io
import pickle
import pickletools
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recap.core.errors import ConfigError
from recap.core.process import cause

MAX_TUPLES = 10_000  # a deeply nested key costs the interpreter's stack when it is hashed
MOST_LEVELS, MOST_VALUES = 64, 10_000_000
# What such files name beside plain values: arrays, which are built where they are wanted, and
# classes of settings and words. All others become `Opaque`, but for the two kinds of dictionaries.
ARRAYS = {
    "numpy.dtype",
    "numpy.ndarray",
    "_codecs.encode",
    "numpy.core.multiarray.scalar",
    "numpy.core.multiarray._reconstruct",
    "numpy._core.multiarray.scalar",
    "numpy._core.multiarray._reconstruct",
}
OPAQUE = {
    "argparse.Namespace",
    "collections.Counter",
    "data.vocab.Vocab",
    "data.vocab._default_unk_index",
    "copy_reg._reconstructor",
    "copyreg._reconstructor",
    "__builtin__.object",
    "builtins.object",
}


class Opaque:
    """Stands for an object of a class that is not imported.

    ``state`` is what its attributes would have been.
    """

    def __init__(self, *_: Any) -> None:
        self.state: Any = {}

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Reader(pickle.Unpickler):
    def __init__(self, content: bytes, *, arrays: bool) -> None:
        super().__init__(io.BytesIO(content), encoding="latin-1")
        self._arrays = arrays

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        if full == "collections.defaultdict":
            return lambda *_: OrderedDict()  # a `defaultdict` without its factory
        if full == "collections.OrderedDict" or (self._arrays and full in ARRAYS):
            return super().find_class(module, name)
        if full in OPAQUE or full in ARRAYS:
            return Opaque
        raise pickle.UnpicklingError(f"names {full!r}, which could run code")


def load_plain(content: bytes, *, arrays: bool = False) -> Any:
    """Return what a pickle holds, as `plain` does; ``arrays``: numpy's arrays as they are.

    Damage raises anything.
    """
    tuples = 0
    for number, (operation, *_) in enumerate(pickletools.genops(content)):
        tuples += "TUPLE" in operation.name
        if tuples > MAX_TUPLES or number > MOST_VALUES:
            raise ValueError(f"has more than {MAX_TUPLES:,} tuples or {MOST_VALUES:,} steps")
    return plain(_Reader(content, arrays=arrays).load())


def read_plain_pickle(path: Path) -> Any:
    """Return what a pickle of settings or words holds, as `plain` does.

    One sentence for whatever is wrong with it.
    """
    try:
        return load_plain(path.read_bytes())
    except Exception as error:  # pickle raises whatever the damaged bytes happen to mean
        raise ConfigError(
            f"{path}: cannot be read as settings or words ({cause(error)}); fetch the release's "
            "own file again"
        ) from error


def plain(values: Any, check: Callable[[Any], object] = id) -> Any:
    """Return what a pickle holds as dictionaries, lists and single values;
    an object's attributes are a dictionary.

    ``check`` raises ValueError at a single value that is refused.
    """
    # by identity: the plain value, how many it has, levels below it
    read: dict[int, tuple[Any, int, int]] = {}

    def visit(value: Any, level: int) -> tuple[Any, int, int]:
        if isinstance(value, Opaque) and isinstance(value.state, dict) and value.state:
            value = value.state
        if not isinstance(value, (dict, list, tuple, set, frozenset)):
            check(value)
            return _single(value), 1, 0
        if id(value) not in read:
            # until it is read: what holds itself never ends
            read[id(value)] = (None, MOST_VALUES + 1, 0)
            if level <= MOST_LEVELS and len(value) <= MOST_VALUES:
                # A dictionary's own methods: attributes of the file may stand in front of them.
                within = dict.values(value) if isinstance(value, dict) else value
                parts = [visit(part, level + 1) for part in within]
                content = _filled(value, [part for part, _, _ in parts])
                below = max((levels for _, _, levels in parts), default=0)
                read[id(value)] = content, 1 + sum(count for _, count, _ in parts), 1 + below
        content, count, below = read[id(value)]
        if level + below > MOST_LEVELS or count > MOST_VALUES:
            raise ValueError(
                f"has more than {MOST_LEVELS} levels or {MOST_VALUES:,} values, or holds itself"
            )
        return content, count, below

    return visit(values, 0)[0]


def _filled(value: Any, parts: list[Any]) -> Any:
    """Return a container with these values as a dictionary or list."""
    if not isinstance(value, dict):
        return parts
    keys = [_single(key, key=True) for key in dict.keys(value)]
    return dict(zip(keys, parts, strict=True))


def _single(value: Any, *, key: bool = False) -> Any:
    is_key = isinstance(value, (str, bytes, int, float, type(None)))
    if (key and not is_key) or (isinstance(value, int) and value.bit_length() > 64):
        raise ValueError(f"a key is {type(value).__name__}, or a number has more than 64 bits")
    return value
