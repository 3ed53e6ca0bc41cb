"""What a server of outside files may do wrong, and the one of a rehearsal that does it on demand."""

from __future__ import annotations

import gzip
import io
import tarfile
import threading
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from recap.settings.versions import OutsideFile
from rehearsal.server import Reply, etag, listed_name

EVIL = "../../evil"  # name of a member that would be written above the folder
# Number of the request (from 0) and right content -> answer; None: the right one.
Answer = Callable[[int, bytes], Reply | None]


@dataclass(frozen=True)
class Fault:
    """One thing that a server does wrong."""

    name: str
    answer: Answer
    fits: Callable[[OutsideFile], bool] = lambda file: True  # whether it can be seen with a file of the list
    heals: bool = False  # whether the download gets over it without a person
    everywhere: bool = True  # whether the other addresses of the file do the same
    resumes: bool = False  # whether the next request must ask for the rest alone


class Misbehavior:
    """The server's faults, by name of a file or a pattern of it; without any, it serves what is right."""

    def __init__(self) -> None:
        self.begin({})

    def begin(self, faults: dict[str, Fault]) -> None:
        """Take other faults."""
        self._faults = faults
        self._starts: dict[str, list[int]] = {}

    def asked_for_the_rest(self, name: str) -> bool:
        """Say whether each address of a file that was asked again was asked for what comes after its first bytes."""
        again = [starts[1:] for path, starts in self._starts.items() if listed_name(path) == name]
        return any(again) and all(start > 0 for starts in again for start in starts)

    def __call__(self, path: str, content: bytes, start: int) -> Reply | None:
        name = listed_name(path)
        fault = next((fault for key, fault in self._faults.items() if fnmatchcase(name, key)), None)
        if fault is None or (path != name and not fault.everywhere):
            return None
        starts = self._starts.setdefault(path, [])
        starts.append(start)
        return fault.answer(len(starts) - 1, content)


def _once(reply: Callable[[bytes], Reply]) -> Answer:
    return lambda number, content: None if number else reply(content)


def _half(content: bytes) -> Reply:
    return Reply(200, content, {"ETag": etag(content)}, sent=len(content) // 2)


def _flipped(content: bytes) -> bytes:
    return bytes(byte ^ 255 for byte in content)


def _has_hash(file: OutsideFile) -> bool:
    return file.hash is not None


def _of_form(file: OutsideFile) -> bool:
    """Say whether only the form of an archive tells that it is wrong."""
    return file.hash is None and file.name.endswith((".zip", ".tgz"))


def with_evil_member(content: bytes) -> bytes:
    """Return a zip or tgz with one member more, whose name leaves the folder."""
    if content[:2] == b"PK":
        packed = io.BytesIO(content)
        with zipfile.ZipFile(packed, "a") as archive:
            archive.writestr(EVIL, "evil")
        return packed.getvalue()
    plain = io.BytesIO(gzip.decompress(content))
    with tarfile.open(fileobj=plain, mode="a") as opened:
        opened.addfile(tarfile.TarInfo(EVIL))
    return gzip.compress(plain.getvalue())


FAULTS = (
    Fault("drops the connection in the middle", _once(_half), heals=True, resumes=True),
    Fault("403", lambda *_: Reply(403)),
    Fault(
        "404 at the first address",
        lambda *_: Reply(404),
        fits=lambda file: len(file.urls) > 1,
        heals=True,
        everywhere=False,
    ),
    Fault("404 at all addresses", lambda *_: Reply(404)),
    Fault("429 with Retry-After", _once(lambda _: Reply(429, headers={"Retry-After": "1"})), heals=True),
    Fault("wrong bytes", lambda _, content: Reply(200, _flipped(content)), fits=_has_hash),
    Fault("other bytes after a drop", _once(lambda content: _half(_flipped(content))), heals=True),
    Fault("truncated archive", lambda _, content: Reply(200, content[: len(content) // 2]), fits=_of_form),
    Fault("member ../../evil", lambda _, content: Reply(200, with_evil_member(content)), fits=_of_form),
)


def stalling(reached: threading.Event) -> Fault:
    """Return the fault that stops in the middle of the first body; ``reached`` is set when it stands still."""

    def reply(content: bytes) -> Reply:
        reached.set()
        return replace(_half(content), held=True)

    return Fault("stalls", _once(reply), heals=True)
