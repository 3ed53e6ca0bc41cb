"""Damaged inputs by the hundred: bytes changed by a seed, and a count of what a parser makes of
them.

A parser may read a mutant or refuse it in a sentence of its own (`RecapError`). Anything else is a
failure: another exception, or more than `SECONDS` of work.
"""

import copy
import json
import random
import re
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.cases import cases
from recap.core.errors import RecapError

COUNT = cases(2_500, few=500)  # mutants of each file
SECONDS = 10.0  # a parser that works longer on one small input hangs
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_NUMBERS = (
    *(
        b"-1",
        b"0",
        b"1",
        b"NaN",
        b"Infinity",
        b"1e999",
        b"-0.0",
        b"1.5",
        b"null",
        b'"1"',
        b"[]",
        b"{}",
        b"true",
    ),
    *(str(2**power + step).encode() for power in (8, 16, 31, 32, 63, 64) for step in (-1, 0)),
    b"9" * 5000,
)
_VALUES = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        2,
        1.5,
        1e300,
        2**31,
        2**63,
        10**400,
        float("nan"),
        float("inf"),
    ),
    *(
        "",
        ".",
        "..",
        "../a",
        "1",
        "a",
        "a|b:c",
        "x" * 5000,
        "\0",
        "\ud800",
        "\u2028",
        "1e999",
        "2001-13-45",
    ),
    *([], {}, [None], {"a": None}, [[]], [{}], {"": {}}),
)
_PIECES = (
    *(
        b"\0",
        b"\n",
        b"\r\n",
        b"\t",
        b'"',
        b"\\",
        b"\\ud800",
        b"|",
        b"\xff\xfe",
        b"\xc3",
        b"\xed\xa0\x80",
        b"../",
    ),
    *("\u2028", "\x85", "\U0001f436", "\u202e"),
)
_BRACKETS = ((b"[", b"]"), (b'{"a":', b"}"), (b"(", b")"), (b"<a>", b"</a>"))


class TooSlow(Exception):
    """A parser works for longer than `SECONDS`."""


@dataclass
class Outcomes:
    """What became of the mutants: how many were read,
    how many refused, and what else happened (by seed)."""

    read: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many there were."""
        return self.read + self.refused + len(self.failures)


def mutated(data: bytes, seed: int) -> bytes:
    """Return ``data`` with one to four changes; equal seeds give equal bytes."""
    chance = random.Random(seed)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        data = chance.choice(_CHANGES)(data, chance)
    return data


def mutated_values(data: bytes, seed: int) -> bytes:
    """Return a JSON text with one to three values replaced, left out or repeated; it stays JSON."""
    chance = random.Random(seed)
    values = [json.loads(data)]
    for _ in range(chance.choice((1, 1, 2, 3))):
        (holder, key), (other, another) = _place(values, chance), _place(values, chance)
        change = chance.choice(("replace", "replace", "exchange", "remove", "name"))
        if change == "replace" or holder is values:
            holder[key] = copy.deepcopy(chance.choice(_VALUES))
        elif change == "exchange":
            holder[key] = copy.deepcopy(other[another])
        elif change == "remove":
            del holder[key]
        elif isinstance(holder, dict):
            holder[chance.choice(("", "a", "..", "x" * 3000))] = holder.pop(key)
        else:
            holder.insert(0, holder[key])
    return json.dumps(values[0]).encode()


def _place(values: Any, chance: random.Random) -> tuple[Any, Any]:
    """Return a list or mapping and one of its keys.

    Those of a long list are no likelier than one near the top.
    """
    key = chance.choice(list(values) if isinstance(values, dict) else range(len(values)))
    below = values[key]
    if isinstance(below, dict | list) and below and chance.random() < 0.8:
        return _place(below, chance)
    return values, key


def outcomes(
    parse: Callable[[bytes], Any],
    originals: Sequence[bytes],
    count: int,
    seed: int = 0,
    *,
    failures: int = 5,
    change: Callable[[bytes, int], bytes] = mutated,
) -> Outcomes:
    """Give mutants to a parser until so many failed.

    ``change(originals[number], seed)`` makes one of them again.
    """
    result = Outcomes()
    for number, one in enumerate(range(seed, seed + count)):
        original = number % len(originals)
        content = change(originals[original], one)
        try:
            with time_limit(SECONDS):
                parse(content)
            result.read += 1
        except RecapError:
            result.refused += 1
        except (Exception, TooSlow):  # what a parser must not let out is what is looked for here
            result.failures.append(
                f"original {original}, seed {one}: {traceback.format_exc(limit=-3)}"
            )
            if len(result.failures) >= failures:
                break
    return result


def check(
    parse: Callable[[bytes], Any],
    originals: Sequence[bytes],
    count: int = COUNT,
    *,
    change: Callable[[bytes, int], bytes] = mutated,
    least: float = 0.01,
) -> Outcomes:
    """Check that originals are read and mutants read or refused,
    ``least`` of them: fewer would test nothing."""
    for content in originals:
        parse(content)
    result = outcomes(parse, originals, count, change=change)
    assert not result.failures, "\n".join(result.failures)
    assert result.total == count and result.refused > least * count
    return result


def as_file(path: Path, read: Callable[[Path], Any]) -> Callable[[bytes], Any]:
    """Return a parser of bytes that reads them from a file."""

    def parse(content: bytes) -> Any:
        path.write_bytes(content)
        return read(path)

    return parse


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `TooSlow` in what works longer (waiting does not count, so that a busy machine changes
    nothing; a wait without end is pytest's to stop); work inside a C library is stopped when it
    comes back."""

    def stop(*_: object) -> None:
        raise TooSlow(f"more than {seconds} s of work")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _span(data: bytes, chance: random.Random, longest: int = 64) -> tuple[int, int]:
    start = chance.randrange(len(data) + 1)
    return start, min(len(data), start + chance.randint(1, longest))


def _flip(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 3, 20)) if data else 0):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, chance: random.Random) -> bytes:
    start, stop = _span(data, chance)
    fill = chance.choice((b"\0", b"\xff", b"\x7f", None))
    new = chance.randbytes(stop - start) if fill is None else fill * (stop - start)
    return data[:start] + new + data[stop:]


def _cut_end(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _cut_out(data: bytes, chance: random.Random) -> bytes:
    start, stop = _span(data, chance)
    return data[:start] + data[stop:]


def _insert(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data) + 1)
    piece = chance.choice((*_PIECES, chance.randbytes(chance.randint(1, 16))))
    return data[:start] + (piece.encode() if isinstance(piece, str) else piece) + data[start:]


def _twice(data: bytes, chance: random.Random) -> bytes:
    start, stop = _span(data, chance, 1024)
    return data[:stop] + data[start:stop] + data[stop:]


def _exchange(data: bytes, chance: random.Random) -> bytes:
    (start, stop), (first, last) = sorted((_span(data, chance), _span(data, chance)))
    if stop > first:
        return data
    return data[:start] + data[first:last] + data[stop:first] + data[start:stop] + data[last:]


def _other_number(data: bytes, chance: random.Random) -> bytes:
    result = [match.span() for match in _NUMBER.finditer(data[: 2**18])]
    if not result:
        return _overwrite(data, chance)
    start, stop = chance.choice(result)
    return data[:start] + chance.choice(_NUMBERS) + data[stop:]


def _nest(data: bytes, chance: random.Random) -> bytes:
    start, stop = _span(data, chance)
    left, right = chance.choice(_BRACKETS)
    depth = chance.choice((3, 200, 3000))
    return data[:start] + left * depth + data[start:stop] + right * depth + data[stop:]


_CHANGES = (
    *(_flip, _flip, _overwrite, _cut_end, _cut_out, _insert, _insert, _twice, _exchange),
    *(_other_number, _other_number, _other_number, _nest),
)
