"""One address into one part file: continued after any interruption, retried with back-off, never trusted."""

from __future__ import annotations

import fcntl
import os
import random
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from recap.core.errors import DataError, RecapError, first_line
from recap.core.files.json_files import read_json, write_json

if TYPE_CHECKING:
    from requests import Response

# What is not yet in the part file when a process is killed is fetched again: at most this much.
CHUNK = 64 * 1024
TRIES = 6
LONGEST_PAUSE = 60.0
# A server that asks for more patience is passed over for the next address.
LONGEST_WAIT = 300.0
_PASSING = (408, 425, 429, 500, 502, 503, 504)


class DownloadError(RecapError):
    """This address does not give the file; another may."""


@dataclass(frozen=True)
class Identity:
    """Which version of which address a part file is the beginning of."""

    url: str
    etag: str | None
    last_modified: str | None
    total: int | None

    @property
    def validator(self) -> str | None:
        """What If-Range takes: a strong ETag, else the date (RFC 9110, 13.1.5)."""
        strong = self.etag if self.etag and not self.etag.startswith("W/") else None
        return strong or self.last_modified

    def contradicts(self, other: Identity) -> bool:
        """Say whether an answer cannot be of the same bytes; what one of the two does not say is no contradiction."""
        pairs: list[tuple[object, object]] = [(self.total, other.total)]
        if self.url == other.url:
            pairs += [(self.etag, other.etag), (self.last_modified, other.last_modified)]
        return any(None not in pair and pair[0] != pair[1] for pair in pairs)


@dataclass(frozen=True)
class Transfer:
    """How to fetch: seconds without a byte before a try is given up, unit of the back-off, who is told the position."""

    timeout: float = 60.0
    pause: float = 1.0
    progress: Callable[[int], object] = lambda position: None
    stop: threading.Event | None = None


def download(url: str, part: Path, file: IO[bytes], *, size: int | None, hashed: bool, transfer: Transfer) -> bool:
    """Fetch ``url`` into ``part``, continuing what is there already if it is the beginning of the same version.

    Args:
        url: http or https address.
        part: the part file; ``<part>.json`` beside it says what it is the beginning of.
        file: the same, opened by ``locked_part``.
        size: bytes of the file where known.
        hashed: True if a published hash will check the bytes; then a beginning may come from elsewhere.
        transfer: time limits and progress.

    Returns:
        True if the file was put together from more than one answer.

    Raises:
        DownloadError: the address refuses, offers another size, or fails TRIES times in a row without a new byte.
    """
    import requests
    from urllib3.exceptions import HTTPError

    kept = False
    failures = 0
    with requests.Session() as session:
        while True:
            start = file.seek(0, os.SEEK_END)
            pause = None
            try:
                headers = _headers(url, part, start, hashed)
                kept = kept or "Range" in headers
                with session.get(url, headers=headers, stream=True, timeout=(30.0, transfer.timeout)) as response:
                    pause = _refused(url, response)
                    if pause is None and _receive(url, response, part, file, size, transfer):
                        return kept
                    problem = f"answered {response.status_code} {response.reason}"
            except (requests.RequestException, HTTPError) as error:
                problem = _reason(error)
            failures = 1 if file.seek(0, os.SEEK_END) > start else failures + 1
            if failures >= TRIES:
                raise DownloadError(f"{url}: {problem}, {TRIES} times in a row")
            backoff = min(LONGEST_PAUSE, transfer.pause * 2 ** (failures - 1)) * random.uniform(0.5, 1.0)
            _wait(pause or backoff, transfer.stop)


@contextmanager
def locked_part(part: Path) -> Iterator[IO[bytes]]:
    """Open a part file for appending, held by one process at a time.

    Raises:
        DataError: another process fetches this file.
    """
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The other process may have given the file its name between our open and our lock.
            mine = part.exists() and os.fstat(file.fileno()).st_ino == part.stat().st_ino
        except BlockingIOError:
            mine = False
        if not mine:
            raise DataError(f"{part}: another process is fetching it; wait for that one, then run this again")
        yield file


def identity_file(part: Path) -> Path:
    """Return the path of the file with the identity of a partial download."""
    return part.with_name(part.name + ".json")


def discard(part: Path) -> None:
    """Remove a part file and its identity."""
    part.unlink(missing_ok=True)
    identity_file(part).unlink(missing_ok=True)


def _headers(url: str, part: Path, start: int, hashed: bool) -> dict[str, str]:
    """Ask for the rest only if something will notice a changed file: the server by If-Range, or the hash at the end."""
    headers = {"Accept-Encoding": "identity", "User-Agent": "recap"}
    known = _identity(part)
    if start and known is not None:
        validator = known.validator if known.url == url else None
        if validator or hashed:
            headers["Range"] = f"bytes={start}-"
        if validator:
            headers["If-Range"] = validator
    return headers


def _identity(part: Path) -> Identity | None:
    with suppress(RecapError, TypeError):
        return Identity(**read_json(identity_file(part)))
    return None


def _refused(url: str, response: Response) -> float | None:
    """Return the seconds to wait (0: the usual back-off) if the server may yet give the file, None if it does now."""
    from urllib3.exceptions import InvalidHeader
    from urllib3.util import Retry

    if response.status_code in (200, 206, 416):
        return None
    if response.status_code not in _PASSING:
        raise DownloadError(f"{url}: answered {response.status_code} {response.reason}")
    try:
        asked = Retry().parse_retry_after(response.headers.get("Retry-After", "0"))
    except InvalidHeader:
        asked = 0.0
    if asked > LONGEST_WAIT:
        raise DownloadError(f"{url}: answered {response.status_code} and asks to wait {asked:.0f} seconds")
    return asked


def _receive(url: str, response: Response, part: Path, file: IO[bytes], size: int | None, transfer: Transfer) -> bool:
    """Append a response's bytes to the part file; return False if the part had to be dropped for another try."""
    offered = Identity(url, response.headers.get("ETag"), response.headers.get("Last-Modified"), _total(response))
    start = file.seek(0, os.SEEK_END)
    known = _identity(part)
    if response.status_code == 416:
        if known is not None and start == known.total:
            return True
        restart(part, file)
        return False
    if size is not None and offered.total is not None and offered.total != size:
        raise DownloadError(f"{url}: offers {offered.total} bytes where the list of files says {size}")
    if response.headers.get("Content-Type", "").startswith("text/html") and not part.name.endswith(".html.part"):
        raise DownloadError(f"{url}: answers with a web page, not with the file")
    if response.status_code == 206:
        # Some servers do not know If-Range and continue whatever they have now.
        if known is None or _first_byte(response) != start or known.contradicts(offered):
            restart(part, file)
            return False
    else:
        restart(part, file)
        write_json(identity_file(part), asdict(offered))
        start = 0
    position = start
    while content := response.raw.read(CHUNK, decode_content=False):
        position += file.write(content)
        # A killed process loses what only it had.
        file.flush()
        transfer.progress(position)
        if size is not None and position > size:
            raise DownloadError(f"{url}: sends more than the {size} bytes that the list of files says")
        if transfer.stop is not None and transfer.stop.is_set():
            raise DownloadError(f"{url}: stopped")
    return True


def restart(part: Path, file: IO[bytes]) -> None:
    """Empty a part file; what is fetched next is fetched whole."""
    identity_file(part).unlink(missing_ok=True)
    file.truncate(0)


def _total(response: Response) -> int | None:
    """Return the bytes of the whole file: the part after the slash of Content-Range, else Content-Length."""
    ranged = re.fullmatch(r"bytes \d+-\d+/(\d+)", response.headers.get("Content-Range", ""))
    if ranged:
        return int(ranged[1])
    length = response.headers.get("Content-Length", "")
    return int(length) if response.status_code == 200 and length.isdecimal() else None


def _first_byte(response: Response) -> int | None:
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(found[1]) if found else None


def _reason(error: Exception) -> str:
    text = first_line(error)
    return f"broke off ({text})"


def _wait(seconds: float, stop: threading.Event | None) -> None:
    if (stop or threading.Event()).wait(seconds):
        raise DownloadError("stopped")
