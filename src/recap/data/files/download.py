"""One address into one part file: continued after any interruption, retried with back-off, never trusted."""

from __future__ import annotations

import os
import random
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from recap.core.documents import read_json, write_json
from recap.core.errors import DataError, RecapError
from recap.core.files import try_lock
from recap.data.files.redirects import MOST, DownloadError, guarded_session, reason_of

if TYPE_CHECKING:
    from requests import Response

CHUNK = 64 * 1024
TRIES = 6  # in a row without a byte more than ever
LONGEST_PAUSE = 60.0
# A server that asks for more patience is passed over for the next address.
LONGEST_WAIT = 300.0
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_PACKED = (".gz", ".tgz")  # what some servers announce as encoded, and is to be stored as it is


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
        known = length.isdecimal() and (ranged is not None or response.status_code == 200)
        return cls(url, validator, int(length) if known else None)

    def differs(self, other: Version) -> bool:
        """Say whether both cannot be of the same bytes; what one of the two does not say is no difference."""
        pairs: list[tuple[object, object]] = [(self.total, other.total)]
        if self.url == other.url:
            pairs.append((self.validator, other.validator))
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
    """
    import requests
    from urllib3.exceptions import HTTPError

    joined, failures, most = False, 0, file.seek(0, os.SEEK_END)
    with guarded_session(url) as session:
        while True:
            pause = 0.0
            try:
                headers = _headers(url, part, file.seek(0, os.SEEK_END), hashed)
                joined = joined or "Range" in headers
                with session.get(url, headers=headers, stream=True, timeout=(30.0, transfer.timeout)) as response:
                    if response.status_code not in (200, 206, 416):
                        pause = _patience(url, response)
                    elif _receive(url, response, part, file, size, transfer):
                        return joined
                    problem = f"answered {response.status_code} {response.reason}"
            except requests.TooManyRedirects as error:
                raise DownloadError(f"{url}: redirects more than {MOST} times") from error
            except (requests.RequestException, HTTPError) as error:
                problem = f"broke off ({reason_of(error)})"
            # A position that was reached before is no progress: an answer that is always shorter than its
            # Content-Length would else be asked for without end.
            position = file.seek(0, os.SEEK_END)
            failures = 1 if position > most else failures + 1
            most = max(most, position)
            if failures >= TRIES:
                raise DownloadError(f"{url}: {problem}, {TRIES} times in a row")
            backoff = min(LONGEST_PAUSE, transfer.pause * 2 ** (failures - 1)) * random.uniform(0.5, 1.0)
            if (transfer.stop or threading.Event()).wait(pause or backoff):
                raise DownloadError(f"{url}: stopped")


@contextmanager
def locked_part(part: Path) -> Iterator[IO[bytes]]:
    """Open a part file for appending, held by one process at a time."""
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("ab") as file:
        # The other process may have given the file its name between our open and our lock.
        if not try_lock(file.fileno()) or not part.exists() or os.fstat(file.fileno()).st_ino != part.stat().st_ino:
            raise DataError(f"{part}: another process is fetching it; wait for that one, then run this again")
        yield file


def version_file(part: Path) -> Path:
    """Return the path of the file that says what a part file is the beginning of."""
    return part.with_name(part.name + ".json")


def restart(part: Path, file: IO[bytes]) -> None:
    """Empty a part file; what is fetched next is fetched whole."""
    version_file(part).unlink(missing_ok=True)
    file.truncate(0)


def _headers(url: str, part: Path, start: int, hashed: bool) -> dict[str, str]:
    """Ask for the rest only if something will notice a changed file: the server by If-Range, or the hash at the end."""
    headers = {"Accept-Encoding": "identity", "User-Agent": "recap"}
    known = _version(part)
    if start and known is not None:
        validator = known.validator if known.url == url else None
        if validator or hashed:
            headers["Range"] = f"bytes={start}-"
        if validator:
            headers["If-Range"] = validator
    return headers


def _version(part: Path) -> Version | None:
    with suppress(RecapError, TypeError):
        return Version(**read_json(version_file(part)))
    return None


def _patience(url: str, response: Response) -> float:
    """Return the seconds that the server asks to wait, 0 if it does not say."""
    from urllib3.exceptions import InvalidHeader
    from urllib3.util import Retry

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
    offered, known, position = Version.offered(url, response), _version(part), file.seek(0, os.SEEK_END)
    if response.status_code == 416:
        # The server's own word on the size here counts more than a Content-Length of before.
        whole = re.fullmatch(r"bytes \*/(\d+)", response.headers.get("Content-Range", ""))
        if known is not None and position == (int(whole[1]) if whole else known.total):
            return True
        restart(part, file)
        return False
    # Not asked for, but sent by some servers: it is unpacked, and cannot be continued.
    encoded = "Content-Encoding" in response.headers and not part.name.removesuffix(".part").endswith(_PACKED)
    if size is not None and offered.total is not None and offered.total != size and not encoded:
        raise DownloadError(f"{url}: offers {offered.total} bytes where the list of files says {size}")
    if response.headers.get("Content-Type", "").startswith("text/html") and not part.name.endswith(".html.part"):
        raise DownloadError(f"{url}: answers with a web page, not with the file")
    if response.status_code == 206:
        # Some servers do not know If-Range and continue whatever they have now.
        begins = re.match(rf"bytes {position}-", response.headers.get("Content-Range", ""))
        if encoded or known is None or not begins or known.differs(offered):
            restart(part, file)
            return False
    else:
        restart(part, file)
        position = 0
        if not encoded:
            write_json(version_file(part), asdict(offered))
    # Whatever has come is written at once: a reset connection or a killed process loses nothing of it.
    while content := response.raw.read1(CHUNK, decode_content=encoded):
        position += file.write(content)
        file.flush()
        transfer.progress(position)
        if size is not None and position > size:
            raise DownloadError(f"{url}: sends more than the {size} bytes that the list of files says")
        if transfer.stop is not None and transfer.stop.is_set():
            raise DownloadError(f"{url}: stopped")
    return True
