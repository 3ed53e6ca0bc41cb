"""One address into one part file:
continued after any interruption, retried with back-off, never led astray.

A redirect of a public address may lead to public addresses of the web alone.
"""

from __future__ import annotations

import ipaddress
import os
import random
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from filelock import lock_descriptor

from recap.core.documents import read_json, write_json
from recap.core.errors import DataError, RecapError, first_line

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
    """How to fetch: seconds without a byte before a try is given up,
    unit of the back-off, who is told of new bytes."""

    timeout: float = 60.0
    pause: float = 1.0
    progress: Callable[[int], object] = lambda count: None


@dataclass(frozen=True)
class Part:
    """The beginning of a file; ``<part>.json`` names its address and version."""

    path: Path
    file: IO[bytes]

    @property
    def record(self) -> Path:
        """The file that says so."""
        return self.path.with_name(self.path.name + ".json")

    @property
    def size(self) -> int:
        """Bytes that have come."""
        return self.file.seek(0, os.SEEK_END)

    @property
    def version(self) -> dict[str, Any]:
        """Address, strong ETag and bytes of the whole; empty where nothing is known."""
        with suppress(RecapError):
            return read_json(self.record, dict[str, str | int | None])
        return {}

    def restart(self) -> None:
        """Empty it; what is fetched next is fetched whole."""
        self.record.unlink(missing_ok=True)
        self.file.truncate(0)


@contextmanager
def locked_part(path: Path) -> Iterator[Part]:
    """Open a part file for appending, held by one process at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        # The other process may have given the file its name between our open and our lock.
        if (
            not lock_descriptor(file.fileno(), blocking=False)
            or not path.exists()
            or os.fstat(file.fileno()).st_ino != path.stat().st_ino
        ):
            raise DataError(
                f"{path}: another process is fetching it; wait for that one, then run this again"
            )
        yield Part(path, file)


def download(url: str, part: Part, *, size: int | None, hashed: bool, transfer: Transfer) -> bool:
    """Fetch ``url`` into a part file,
    continuing what is there already if it is the beginning of the same version.

    If a published hash will check the bytes (``hashed``), a beginning may come from elsewhere.
    Returns whether the file was put together from more than one answer.
    """
    import requests
    from urllib3.exceptions import HTTPError

    joined, failures, most = False, 0, part.size
    with guarded_session(url) as session:
        while True:
            if part.size and part.size == part.version.get("total"):
                return True  # a process that was killed before it gave the file its name
            pause = 0.0
            try:
                headers = _headers(url, part, hashed)
                joined = joined or "Range" in headers
                with session.get(
                    url, headers=headers, stream=True, timeout=(30.0, transfer.timeout)
                ) as response:
                    if response.status_code not in (200, 206, 416):
                        pause = _patience(url, response)
                    elif _receive(url, response, part, size, transfer):
                        return joined
                    problem = f"answered {response.status_code} {response.reason}"
            except requests.TooManyRedirects as error:
                raise DownloadError(f"{url}: redirects more than {MOST} times") from error
            except (requests.RequestException, HTTPError) as error:
                problem = f"broke off ({reason_of(error)})"
            # A position that was reached before is no progress: an answer that is always shorter
            # than its Content-Length would else be asked for without end.
            failures = 1 if part.size > most else failures + 1
            most = max(most, part.size)
            if failures >= TRIES:
                raise DownloadError(f"{url}: {problem}, {TRIES} times in a row")
            backoff = min(LONGEST_PAUSE, transfer.pause * 2 ** (failures - 1)) * random.uniform(
                0.5, 1.0
            )
            time.sleep(pause or backoff)


def _headers(url: str, part: Part, hashed: bool) -> dict[str, str]:
    """Ask for the rest only if something will notice a changed file: the hash at the end, or the
    ETag."""
    headers = {"Accept-Encoding": "identity", "User-Agent": "recap"}
    before = part.version
    etag = before.get("etag") if before.get("url") == url else None
    if part.size and before and (hashed or etag):
        headers["Range"] = f"bytes={part.size}-"
        if etag:
            headers["If-Range"] = etag
    return headers


def _patience(url: str, response: Response) -> float:
    """Return the seconds that the server asks to wait, 0 if it does not say."""
    from urllib3.exceptions import InvalidHeader
    from urllib3.util import Retry

    wait = 0.0
    with suppress(InvalidHeader):
        wait = Retry().parse_retry_after(response.headers.get("Retry-After", "0"))
    if response.status_code not in PASSING or wait > LONGEST_WAIT:
        raise DownloadError(
            f"{url}: answered {response.status_code} {response.reason} (Retry-After: {wait:.0f} s)"
        )
    return wait


def _receive(
    url: str, response: Response, part: Part, size: int | None, transfer: Transfer
) -> bool:
    """Append a response's bytes to the part file.

    Return False if the part had to be dropped for another try.
    """
    name = part.path.name.removesuffix(".part")
    # Not asked for, but sent by some servers: it is unpacked, and cannot be continued.
    encoded = "Content-Encoding" in response.headers and not name.endswith(_PACKED)
    offered = _offered(url, response)
    if size is not None and offered["total"] not in (None, size) and not encoded:
        raise DownloadError(
            f"{url}: offers {offered['total']} bytes where the list of files says {size}"
        )
    page = response.headers.get("Content-Type", "").startswith("text/html")
    if page and not name.endswith(".html"):
        raise DownloadError(f"{url}: answers with a web page, not with the file")
    if response.status_code == 200:
        part.restart()
        if not encoded:
            write_json(part.record, offered)
    elif encoded or not _continues(url, response, part, offered["etag"]):
        part.restart()
        return False
    # Whatever has come is written at once:
    # a reset connection or a killed process loses nothing of it.
    while content := response.raw.read1(CHUNK, decode_content=encoded):
        part.file.write(content)
        part.file.flush()
        transfer.progress(len(content))
        if size is not None and part.size > size:
            raise DownloadError(
                f"{url}: sends more than the {size} bytes that the list of files says"
            )
    return True


def _continues(url: str, response: Response, part: Part, etag: str | None) -> bool:
    """Return whether a response goes on where the part file ends, in the same version."""
    start = f"bytes {part.size}-"
    if response.status_code == 416 or not response.headers.get("Content-Range", "").startswith(
        start
    ):
        return False
    # Some servers do not know If-Range and continue whatever they have now.
    before = part.version
    return before.get("url") != url or before.get("etag") == etag


def _offered(url: str, response: Response) -> dict[str, Any]:
    """Return the version that a response is of; If-Range takes no weak ETag (RFC 9110, 13.1.5)."""
    etag = response.headers.get("ETag", "")
    strong = etag if etag and not etag.startswith("W/") else None
    ranged = re.fullmatch(r"bytes \d+-\d+/(\d+)", response.headers.get("Content-Range", ""))
    length = response.headers.get("Content-Length", "") if response.status_code == 200 else ""
    total = ranged[1] if ranged else length
    return {"url": url, "etag": strong, "total": int(total) if total.isdecimal() else None}


def guarded_session(url: str) -> Session:
    """Return a session for one address that follows few redirects,
    and raises DownloadError at one that is refused."""
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


def reason_of(error: BaseException) -> str:
    """Return what a failed request ended with,
    without the pools and retries that the libraries wrap it in."""
    while error.__context__ is not None:
        error = error.__context__
    words = getattr(error, "strerror", None) or first_line(error)
    return re.sub(r"^\w+\((.*)\)$", r"\1", words)  # IncompleteRead(5 bytes read, 9 more expected)


def redirect_problem(listed: str, target: str) -> str | None:
    """Return why a redirect is not followed, or None.

    A server somewhere could otherwise have files of this machine and of its network read: what it
    may name is http or https, and no loopback, private or link-local address, unless the listed
    address itself is one.
    """
    if urlsplit(target).scheme not in ("http", "https"):
        return f"redirects to {target[:200]}, which is no address of the web"
    if _is_internal(target) and not _is_internal(listed):
        return f"redirects to {target[:200]}, an address within this machine or its network"
    return None


def _is_internal(url: str) -> bool:
    """Say whether a host has an address that is not public.

    A name that is not known here is left to a proxy.
    """
    try:
        parts = urlsplit(url)
        addresses = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        return False
    return any(
        not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_global
        for *_, address in addresses
    )
