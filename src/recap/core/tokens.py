"""The tokens of Python source that decide what it computes: no comments, docstrings, blank lines or layout.

They are the same on Python 3.11 to 3.13, whose tokenizers differ in f-strings alone.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from keyword import iskeyword, issoftkeyword
from tokenize import TokenInfo

_SKIPPED = (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER)
_MARKS = {tokenize.NEWLINE: "\n", tokenize.INDENT: "\x01", tokenize.DEDENT: "\x02"}  # whatever their text is
# From Python 3.12 on an f-string is several tokens.
_FSTRING_START = getattr(tokenize, "FSTRING_START", -1)
_FSTRING_END = getattr(tokenize, "FSTRING_END", -1)


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield a module and all its statements; expressions, most of a tree, hold no import and no docstring."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            todo += getattr(node, field, [])


def source_tokens(source: str, tree: ast.Module) -> Iterator[str]:
    """Yield the tokens of a module; ends of statements and blocks are tokens, too.

    Args:
        source: the text.
        tree: the text, parsed.
    """
    read = tokenize.generate_tokens(io.StringIO(source).readline)
    joined = _with_whole_fstrings(read, source.splitlines(keepends=True))
    kept = (token for token in joined if token.type not in _SKIPPED)
    plain = _without_docstrings(kept, _docstrings(tree))
    return _without_last_commas(_MARKS.get(token.type, token.string) for token in plain)


def _with_whole_fstrings(tokens: Iterable[TokenInfo], lines: list[str]) -> Iterator[TokenInfo]:
    """Yield tokens with each f-string as one, as Python 3.11 has it."""
    depth, start = 0, (0, 0)
    for token in tokens:
        if token.type == _FSTRING_START:
            start = token.start if depth == 0 else start
            depth += 1
        elif token.type == _FSTRING_END:
            depth -= 1
            if depth == 0:
                text = _between(lines, start, token.end)
                yield TokenInfo(tokenize.STRING, text, start, token.end, token.line)
        elif depth == 0:
            yield token


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """Return the text between two positions (line from 1, column from 0)."""
    whole = lines[start[0] - 1 : end[0]]
    whole[-1] = whole[-1][: end[1]]
    whole[0] = whole[0][start[1] :]
    return "".join(whole)


def _docstrings(tree: ast.Module) -> set[tuple[int, int]]:
    """Return where the docstrings begin: line from 1, column from 0."""
    found = set()
    for node in statements(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            value = first.value if isinstance(first, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                found.add((first.lineno, first.col_offset))
    return found


def _without_docstrings(tokens: Iterable[TokenInfo], starts: set[tuple[int, int]]) -> Iterator[TokenInfo]:
    """Yield tokens but for docstrings, of several strings in a row too, and the ends of their lines."""
    within = False
    for token in tokens:
        within = within or token.start in starts
        if within and token.type == tokenize.STRING:
            continue
        if not (within and token.type == tokenize.NEWLINE):
            yield token
        within = False


def _without_last_commas(tokens: Iterable[str]) -> Iterator[str]:
    """Yield tokens but for a comma before a closing bracket where it means nothing, unlike in `(a,)` and `x[a,]`."""
    brackets: list[bool] = []  # of each open one: whether a last comma is layout
    comma, before = False, ""
    for token in tokens:
        if comma:
            if token not in (")", "]", "}"):
                brackets[-1] = True
                yield ","
            elif not brackets[-1]:
                yield ","
        comma = token == "," and bool(brackets)
        if token in ("(", "[", "{"):
            brackets.append(token == "{" or (token == "(" and _is_called(before)))
        elif token in (")", "]", "}"):
            brackets.pop()
        if not comma:
            yield token
        before = token


def _is_called(before: str) -> bool:
    """Return whether the bracket after a token holds arguments."""
    name = before.isidentifier() and not iskeyword(before) and not issoftkeyword(before)
    return name or before in (")", "]")
