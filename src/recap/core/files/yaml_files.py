"""Reads YAML mappings strictly: no duplicate key, and one sentence with file and line for whatever is wrong."""

from __future__ import annotations

import copy
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from recap.core.errors import ConfigError, MissingSettings

MOST_VALUES = 100_000
# What PyYAML's own constructors let out for a date, a number or a tag that is none.
_NO_VALUE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a YAML file whose top is a mapping.

    Raises:
        ConfigError: the file is missing or cannot be read, or is no YAML, or a key is duplicated in one mapping.
    """
    try:
        values = parse(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError as error:
        raise MissingSettings(f"{path}: no such file") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); name a YAML file") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is no UTF-8 (byte {error.start}); save it as UTF-8") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected keys and values at the top of the file")
    return values


def parse(text: str, source: str) -> Any:
    """Return the value that a YAML text is.

    Args:
        text: the text.
        source: where it is from, for messages.

    Raises:
        ConfigError: it is no YAML, or a key is duplicated in one mapping.
    """
    try:
        return copy.deepcopy(_parsed(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source} line {mark.line + 1}" if mark else source
        what = " ".join(part for part in (error.context, error.problem) if part)
        said = what if isinstance(error, _Refused) else f"not valid YAML: {' '.join(what.split())}"
        raise ConfigError(f"{where}: {said}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{source}: not valid YAML: {' '.join(str(error).split())}") from error
    except RecursionError as error:
        raise ConfigError(f"{source}: its values are nested too deep; write it with fewer levels") from error


@lru_cache(maxsize=512)  # a plan reads the same files for every row, and parsing is slow
def _parsed(text: str) -> Any:
    return yaml.load(text, _Loader)  # noqa: S506 (a SafeLoader)


class _Refused(yaml.constructor.ConstructorError):
    """Valid YAML that parameter files may not hold."""


class _Loader(yaml.SafeLoader):
    def get_single_node(self) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()
        # A few lines of aliases can expand to more values than any memory holds.
        if node is not None and _size(node, {}) > MOST_VALUES:
            raise _Refused(None, None, f"expands to more than {MOST_VALUES:,} values; write less", node.start_mark)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except _NO_VALUE as error:
            reason = " ".join(str(error).split())
            raise _Refused(None, None, f"{_short(node)!r} is no value ({reason})", node.start_mark) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        lines: dict[Any, int] = {}
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key, line = self.construct_object(key_node), key_node.start_mark.line + 1
            if key in lines:
                wrong = f"the key {key!r} is duplicated, in lines {lines[key]} and {line}; remove one of them"
                raise _Refused(None, None, wrong, key_node.start_mark)
            lines[key] = line
        return super().construct_mapping(node, deep)


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Return how many values a node has with its aliases expanded; one that holds itself has too many."""
    if id(node) not in sizes:
        sizes[id(node)] = MOST_VALUES + 1
        pairs = node.value if isinstance(node, yaml.MappingNode) else [node.value]
        parts = [part for pair in pairs for part in pair if isinstance(part, yaml.Node)]
        sizes[id(node)] = 1 + sum(_size(part, sizes) for part in parts)
    return sizes[id(node)]


def _short(node: yaml.Node) -> str:
    return str(node.value)[:60] if isinstance(node, yaml.ScalarNode) else type(node).__name__
