"""One address into one part file: continued after any interruption, retried with back-off, never led astray.

A redirect of a public address may lead to public addresses of the web alone.
"""

from __future__ import annotations

import ipaddress
import os
import random
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from recap.core.documents import read_json, write_json
from recap.core.errors import DataError, RecapError, first_line
from recap.core.files import try_lock

if TYPE_CHECKING:
    from requests import Response, Session

CHUNK = 64 * 1024
TRIES = 6  # in a row without a byte more than ever
LONGEST_PAUSE = 60.0
LONGEST_WAIT = 300.0  # a server that asks for more patience is passed over for the next address
MOST = 5  # redirects in a row; a loop is given up after as many requests
PASSING = (408, 425, 429, 500, 502, 503, 504)
_PACKED = (".gz", ".tgz")  # what some servers announce as encoded, and is to be stored as it is


class DownloadError(RecapError):
    """This address does not give the file; another may."""


@dataclass(frozen=True)
class Transfer:
    """How to fetch: seconds without a byte before a try is given up, unit of the back-off, who is told the position."""

    timeout: float = 60.0
    pause: float = 1.0
    progress: Callable[[int], object] = lambda position: None
    stop: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Version:
    """What a part file is the beginning of: address, strong ETag or else date, and bytes of the whole."""

    url: str
    validator: str | None
    total: int | None

    @classmethod
    def offered(cls, url: str, response: Response) -> Version:
        """Return what a response is of; If-Range takes no weak ETag (RFC 9110, 13.1.5)."""
        etag = response.headers.get("ETag", "W/")
        validator = response.headers.get("Last-Modified") if etag.startswith("W/") else etag
        ranged = re.fullmatch(r"bytes \d+-\d+/(\d+)", response.headers.get("Content-Range", ""))
        length = ranged[1] if ranged else response.headers.get("Content-Length", "")
        whole = length.isdecimal() and (ranged is not None or response.status_code == 200)
        return cls(url, validator, int(length) if whole else None)

    def differs(self, other: Version) -> bool:
        """Say whether both cannot be of the same bytes; what one of the two does not say is no difference."""
        pairs: list[tuple[object, object]] = [(self.total, other.total)]
        if self.url == other.url:
            pairs.append((self.validator, other.validator))
        return any(None not in pair and pair[0] != pair[1] for pair in pairs)


@contextmanager
def locked_part(part: Path) -> Iterator[Part]:
    """Open a part file for appending, held by one process at a time."""
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("ab") as file:
        # The other process may have given the file its name between our open and our lock.
        if not try_lock(file.fileno()) or not part.exists() or os.fstat(file.fileno()).st_ino != part.stat().st_ino:
            raise DataError(f"{part}: another process is fetching it; wait for that one, then run this again")
        yield Part(part, file)


@dataclass(frozen=True)
class Part:
    """The beginning of a file, and beside it ``<part>.json``, which says what it is the beginning of."""

    path: Path
    file: IO[bytes]

    @property
    def record(self) -> Path:
        """The file that says what this is the beginning of."""
        return self.path.with_name(self.path.name + ".json")

    @property
    def size(self) -> int:
        """Bytes that have come."""
        return self.file.seek(0, os.SEEK_END)

    @property
    def version(self) -> Version | None:
        """What this is the beginning of, where that is known."""
        with suppress(RecapError, TypeError):
            return Version(**read_json(self.record))
        return None

    def restart(self) -> None:
        """Empty it; what is fetched next is fetched whole."""
        self.record.unlink(missing_ok=True)
        self.file.truncate(0)


def download(url: str, part: Part, *, size: int | None, hashed: bool, transfer: Transfer) -> bool:
    """Fetch ``url`` into a part file, continuing what is there already if it is the beginning of the same version.

    If a published hash will check the bytes (``hashed``), a beginning may come from elsewhere. Returns whether the file
    was put together from more than one answer.
    """
    import requests
    from urllib3.exceptions import HTTPError

    joined, failures, most = False, 0, part.size
    with guarded_session(url) as session:
        while True:
            pause = 0.0
            try:
                headers = _headers(url, part, hashed)
                joined = joined or "Range" in headers
                with session.get(url, headers=headers, stream=True, timeout=(30.0, transfer.timeout)) as response:
                    if response.status_code not in (200, 206, 416):
                        pause = _patience(url, response)
                    elif _receive(url, response, part, size, transfer):
                        return joined
                    problem = f"answered {response.status_code} {response.reason}"
            except requests.TooManyRedirects as error:
                raise DownloadError(f"{url}: redirects more than {MOST} times") from error
            except (requests.RequestException, HTTPError) as error:
                problem = f"broke off ({reason_of(error)})"
            # A position that was reached before is no progress: an answer that is always shorter than its
            # Content-Length would else be asked for without end.
            failures = 1 if part.size > most else failures + 1
            most = max(most, part.size)
            if failures >= TRIES:
                raise DownloadError(f"{url}: {problem}, {TRIES} times in a row")
            backoff = min(LONGEST_PAUSE, transfer.pause * 2 ** (failures - 1)) * random.uniform(0.5, 1.0)
            if transfer.stop.wait(pause or backoff):
                raise DownloadError(f"{url}: stopped")


def _headers(url: str, part: Part, hashed: bool) -> dict[str, str]:
    """Ask for the rest only if something will notice a changed file: the server by If-Range, or the hash at the end."""
    headers = {"Accept-Encoding": "identity", "User-Agent": "recap"}
    before = part.version
    if part.size and before is not None:
        validator = before.validator if before.url == url else None
        if validator or hashed:
            headers["Range"] = f"bytes={part.size}-"
        if validator:
            headers["If-Range"] = validator
    return headers


def _patience(url: str, response: Response) -> float:
    """Return the seconds that the server asks to wait, 0 if it does not say."""
    from urllib3.exceptions import InvalidHeader
    from urllib3.util import Retry

    if response.status_code not in PASSING:
        raise DownloadError(f"{url}: answered {response.status_code} {response.reason}")
    wait = 0.0
    with suppress(InvalidHeader):
        wait = Retry().parse_retry_after(response.headers.get("Retry-After", "0"))
    if wait > LONGEST_WAIT:
        raise DownloadError(f"{url}: answered {response.status_code} and asks to wait {wait:.0f} seconds")
    return wait


def _receive(url: str, response: Response, part: Part, size: int | None, transfer: Transfer) -> bool:
    """Append a response's bytes to the part file; return False if the part had to be dropped for another try."""
    offered, before, position = Version.offered(url, response), part.version, part.size
    if response.status_code == 416:
        # The server's own word on the size here counts more than a Content-Length of before.
        whole = re.fullmatch(r"bytes \*/(\d+)", response.headers.get("Content-Range", ""))
        if before is not None and position == (int(whole[1]) if whole else before.total):
            return True
        part.restart()
        return False
    name = part.path.name.removesuffix(".part")
    # Not asked for, but sent by some servers: it is unpacked, and cannot be continued.
    encoded = "Content-Encoding" in response.headers and not name.endswith(_PACKED)
    if size is not None and offered.total is not None and offered.total != size and not encoded:
        raise DownloadError(f"{url}: offers {offered.total} bytes where the list of files says {size}")
    if response.headers.get("Content-Type", "").startswith("text/html") and not name.endswith(".html"):
        raise DownloadError(f"{url}: answers with a web page, not with the file")
    if response.status_code == 206:
        # Some servers do not know If-Range and continue whatever they have now.
        begins = re.match(rf"bytes {position}-", response.headers.get("Content-Range", ""))
        if encoded or before is None or not begins or before.differs(offered):
            part.restart()
            return False
    else:
        part.restart()
        position = 0
        if not encoded:
            write_json(part.record, asdict(offered))
    # Whatever has come is written at once: a reset connection or a killed process loses nothing of it.
    while content := response.raw.read1(CHUNK, decode_content=encoded):
        position += part.file.write(content)
        part.file.flush()
        transfer.progress(position)
        if size is not None and position > size:
            raise DownloadError(f"{url}: sends more than the {size} bytes that the list of files says")
        if transfer.stop.is_set():
            raise DownloadError(f"{url}: stopped")
    return True


def guarded_session(url: str) -> Session:
    """Return a session for one address that follows few redirects, and raises DownloadError at one that is refused."""
    import requests

    def check(response: Response, **_: Any) -> None:
        if response.is_redirect:
            problem = redirect_problem(url, urljoin(response.url, response.headers["location"]))
            if problem:
                raise DownloadError(f"{url}: {problem}")

    session = requests.Session()
    session.max_redirects = MOST
    session.hooks["response"].append(check)
    return session


def reason_of(error: Exception) -> str:
    """Return what a failed request ended with, without the pools and retries that the libraries wrap it in."""
    inner: object = error
    while isinstance(inner, Exception):
        error = inner
        inner = getattr(error, "reason", None) or next((a for a in error.args[::-1] if isinstance(a, Exception)), None)
    words = getattr(error, "strerror", None) or first_line(error).rpartition("): ")[2]
    return re.sub(r"^\w+\((.*)\)$", r"\1", words)  # IncompleteRead(5 bytes read, 9 more expected)


def redirect_problem(listed: str, target: str) -> str | None:
    """Return why a redirect is not followed, or None.

    A server somewhere could otherwise have files of this machine and of its network read: what it may name is http or
    https, and no loopback, private or link-local address, unless the listed address itself is one.
    """
    if urlsplit(target).scheme not in ("http", "https"):
        return f"redirects to {target[:200]}, which is no address of the web"
    if _is_internal(target) and not _is_internal(listed):
        return f"redirects to {target[:200]}, an address within this machine or its network"
    return None


def _is_internal(url: str) -> bool:
    """Say whether a host has an address that is not public; a name that is not known here is left to a proxy."""
    try:
        parts = urlsplit(url)
        addresses = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        return False
    return any(not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_global for *_, address in addresses)
