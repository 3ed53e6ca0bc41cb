"""A JSON text that is read from its beginning to its end, a value at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_SPACE = re.compile(r"[ \t\n\r]*")
_PARSER = json.JSONDecoder()


class JsonText:
    """A text and the place up to which it was read. All methods raise JSONDecodeError where the text is not valid."""

    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0

    def next(self) -> str:
        """Return the next character that is no white space without reading it; '' at the end."""
        found = _SPACE.match(self.text, self.place)
        assert found is not None  # it may match nothing
        self.place = found.end()
        return self.text[self.place : self.place + 1]

    def take(self, *characters: str) -> str:
        """Read the next character, which must be one of some."""
        found = self.next()
        if found not in characters:
            raise json.JSONDecodeError(f"Expecting {' or '.join(characters)}", self.text, self.place)
        self.place += 1
        return found

    def value(self) -> Any:
        """Read a value of any kind."""
        self.next()
        value, self.place = _PARSER.raw_decode(self.text, self.place)
        return value

    def items(self) -> Iterator[Any]:
        """Read a list; each element is parsed when it is asked for."""
        for _ in self._between("[", "]"):
            yield self.value()

    def members(self) -> Iterator[str]:
        """Read an object and yield each key, whose value must be read before the next key is asked for."""
        for _ in self._between("{", "}"):
            if self.next() != '"':
                raise json.JSONDecodeError("Expecting property name", self.text, self.place)
            key: str = self.value()
            self.take(":")
            yield key

    def end(self) -> None:
        """Refuse anything but white space."""
        if self.next():
            raise json.JSONDecodeError("Extra data", self.text, self.place)

    def _between(self, opening: str, closing: str) -> Iterator[None]:
        self.take(opening)
        if self.next() == closing:
            self.take(closing)
            return
        yield
        while self.take(",", closing) == ",":
            yield
