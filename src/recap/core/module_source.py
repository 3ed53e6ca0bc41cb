"""What the source of a module computes and imports, read once: Python's tokenizer takes a second for the whole package.

As Python keeps bytecode, the result is kept in `__pycache__`, under the hash of the module's text and of this code.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import cache_from_source
from pathlib import Path

from recap.core import tokens


@dataclass(frozen=True)
class ModuleSource:
    """The digest of a module's tokens, and the dotted names that it may import, also inside functions."""

    digest: str
    names: list[str]


@cache
def module_source(file: Path) -> ModuleSource:
    """Return what the module in `file` computes and imports."""
    text = file.read_bytes()
    key = hashlib.sha256(_own_code() + text).hexdigest()
    kept = Path(cache_from_source(str(file))).with_suffix(".source.json")
    with suppress(OSError, ValueError, TypeError, AttributeError, KeyError):  # there is none, or it is damaged
        known = json.loads(kept.read_text())
        if known.pop("key") == key:
            return ModuleSource(**known)
    found = _read(text.decode(), file)
    if not sys.dont_write_bytecode:
        _keep(kept, {"key": key, **asdict(found)})
    return found


def _read(text: str, file: Path) -> ModuleSource:
    tree = ast.parse(text, filename=str(file))
    digest = hashlib.sha256("\0".join(tokens.source_tokens(text, tree)).encode()).hexdigest()
    return ModuleSource(digest, sorted({name for node in tokens.statements(tree) for name in _targets(node)}))


def _targets(node: ast.AST) -> Iterator[str]:
    """Yield the names that an import statement may mean; ``from a import b`` may mean the module ``a.b``."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def _own_code() -> bytes:
    return b"".join(Path(file).read_bytes() for file in (__file__, tokens.__file__))


def _keep(path: Path, value: dict[str, object]) -> None:
    """Write, in one step, what may be lost: where nothing can be written, source is read again."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(OSError):
        path.parent.mkdir(exist_ok=True)
        temporary.write_text(json.dumps(value))
        temporary.replace(path)
