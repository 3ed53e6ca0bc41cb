"""JSON and YAML: read strictly, with one sentence that names file and key; equal values give equal bytes."""

from __future__ import annotations

import copy
import json
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from recap.core.errors import ConfigError, DamagedFile, RecapError
from recap.core.files import reading, write_text
from recap.core.problems import adapter, first_problem

MOST_VALUES = 100_000
# What PyYAML's own constructors let out for a date, a number or a tag that is none.
_NO_VALUE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)
_AGAIN = "delete it and repeat the command that makes it"


def write_json(path: str | Path, value: Any) -> None:
    """Write ``value`` as JSON with sorted keys, atomically, so that equal values give equal bytes."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: str | Path, kind: Any = Any) -> Any:
    """Read a JSON file that a job made, as a type that pydantic knows."""
    with reading(path, RecapError, missing="run the step that makes it first", damaged=_AGAIN):
        content = Path(path).read_bytes()
    return parse_json(content, str(path), kind)


def parse_json(content: bytes, source: str, kind: Any = Any) -> Any:
    """Return what a JSON text holds; ``source`` says where it is from. What `write_json` does not write is refused."""
    try:
        values = json.loads(content.decode(), parse_int=_whole, parse_float=_finite, parse_constant=_finite)
        return adapter(kind).validate_python(values)
    except ValidationError as error:
        raise DamagedFile(f"{source}: {first_problem(error, kind)}; {_AGAIN}") from error
    except (ValueError, RecursionError) as error:
        raise DamagedFile(f"{source}: not valid JSON ({error}); {_AGAIN}") from error


def _whole(text: str) -> int:
    if not -(2**63) <= (number := int(text)) < 2**63:
        raise ValueError("a whole number has more than 64 bits")
    return number


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:20]} is no finite number")
    return number


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a YAML file whose top is a mapping; a key that is duplicated in one mapping is refused."""
    with reading(path, ConfigError, missing="correct its name", damaged="save it as UTF-8"):
        text = path.read_text(encoding="utf-8")
    values = parse(text, str(path))
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected keys and values at the top of the file")
    return values


def parse(text: str, source: str) -> Any:
    """Return the value that a YAML text, from ``source``, is."""
    try:
        return copy.deepcopy(_parsed(text))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source} line {mark.line + 1}" if mark else source
        what = " ".join(" ".join(part for part in (error.context, error.problem) if part).split())
        raise ConfigError(f"{where}: {'' if isinstance(error, _Refused) else 'not valid YAML: '}{what}") from error
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
            text = str(node.value)[:60] if isinstance(node, yaml.ScalarNode) else type(node).__name__
            raise _Refused(None, None, f"{text!r} is no value ({error})", node.start_mark) from error

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
