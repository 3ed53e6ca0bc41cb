"""Outside files into the inputs folder: from a local copy or from the network, verified before they get their names.

A download is continued after any interruption, retried with back-off, and never trusted: what a server sends is
compared with the published hash, or with the hash of the first fetch, or has the form that its name says. A redirect
of a public address may lead to public addresses of the web alone.
"""

from __future__ import annotations

import gzip
import hashlib
import ipaddress
import os
import random
import re
import shutil
import socket
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from recap.core.documents import read_json, write_json
from recap.core.errors import DataError, RecapError, first_line
from recap.core.files import atomic_path, try_lock, writing
from recap.core.log import byte_bar, log
from recap.core.process import limited_memory
from recap.data.files.archives import DAMAGED, MemberNames, damage, members
from recap.settings.versions import OutsideFile

if TYPE_CHECKING:
    from requests import Response, Session

CHUNK = 64 * 1024
TRIES = 6  # in a row without a byte more than ever
LONGEST_PAUSE = 60.0
LONGEST_WAIT = 300.0  # a server that asks for more patience is passed over for the next address
MOST = 5  # redirects in a row; a loop is given up after as many requests
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_PACKED = (".gz", ".tgz")  # what some servers announce as encoded, and is to be stored as it is


class DownloadError(RecapError):
    """This address does not give the file; another may."""


@dataclass(frozen=True)
class Transfer:
    """How to fetch: seconds without a byte before a try is given up, unit of the back-off, who is told the position."""

    timeout: float = 60.0
    pause: float = 1.0
    progress: Callable[[int], object] = lambda position: None
    stop: threading.Event | None = None


@dataclass(frozen=True)
class Fetched:
    """What became of one file: ``how`` is 'there', 'copied' or 'downloaded'."""

    path: Path
    how: str
    sha256: str
    checked: str


@limited_memory()
def fetch_files(
    files: Sequence[OutsideFile], *, into: Path, source: Path | None = None, workers: int = 4, transfer: Transfer
) -> list[Fetched]:
    """Bring files into a folder, several at once; a file that is there already is verified and kept.

    ``coco/x.zip`` of ``source`` (a file, or a folder with it or with ``x.zip``) is taken instead of the network.
    """
    stop, lock = transfer.stop or threading.Event(), threading.Lock()
    total = sum(file.bytes or 0 for file in files) if all(file.bytes for file in files) else None
    with closing(byte_bar("fetch", total=total)) as bar:

        def one(file: OutsideFile) -> Fetched | RecapError:
            progress = _mover(bar, lock)
            try:
                with writing(into / file.name):
                    told = replace(transfer, progress=progress, stop=stop)
                    return fetch_file(file, into=into, source=source, transfer=told)
            except RecapError as error:
                return error
            except OSError as error:
                return DataError(f"{into / file.name}: cannot be read or written ({error}); correct the folder")

        with ThreadPool(workers) as pool:
            try:
                done = list(pool.imap(one, files))
            except BaseException:
                stop.set()  # downloads that are left behind end at their next byte
                raise
    failed = [result for result in done if isinstance(result, RecapError)]
    for error in failed[1:]:
        log.error(f"recap: {error}")
    if failed:
        others = f" (and {len(failed) - 1} other files failed)" if len(failed) > 1 else ""
        raise DataError(f"{failed[0]}{others}")
    return [result for result in done if isinstance(result, Fetched)]


def fetch_file(file: OutsideFile, *, into: Path, source: Path | None, transfer: Transfer) -> Fetched:
    """Bring one file; see ``fetch_files``."""
    target = into / file.name
    if target.is_file():
        return _keep(file, target, target, *verify(file, target, target), how="there", origin="a local copy")
    if source is not None:
        return _copy(file, _local(file, source), target)
    if not file.urls:
        raise DataError(f"{file.name}: cannot be fetched from any address; {file.note}. Put it at {target}")
    part = target.with_name(target.name + ".part")
    problems = []
    with locked_part(part) as opened:
        for url in file.urls:
            try:
                return _download(file, url, part, opened, target, transfer)
            except DownloadError as error:
                problems.append(str(error))
                if transfer.stop is not None and transfer.stop.is_set():
                    break
        if not part.stat().st_size:
            part.unlink()
            version_file(part).unlink(missing_ok=True)
    raise DataError(
        f"{file.name}: could not be fetched ({'; '.join(problems)}); run it again later, or fetch it by hand and "
        f"give the copy with --from"
    )


def _download(file: OutsideFile, url: str, part: Path, opened: IO[bytes], target: Path, transfer: Transfer) -> Fetched:
    """Fetch from one address; wrong bytes that were put together from several answers get a second, whole try."""
    joined = download(url, part, opened, size=file.bytes, hashed=file.hash is not None, transfer=transfer)
    try:
        return _keep(file, part, target, *verify(file, part, target), how="downloaded", origin=url)
    except DataError as error:
        restart(part, opened)
        if joined:
            return _download(file, url, part, opened, target, transfer)
        raise DownloadError(f"{url}: {error}") from error


def _keep(file: OutsideFile, path: Path, target: Path, sha256: str, checked: str, *, how: str, origin: str) -> Fetched:
    """Record the hash of the verified file ``path``, and give it its name."""
    record = record_of(target)
    if how != "there" or not record.is_file():
        about = {"name": file.name, "version": file.version, "sha256": sha256, "bytes": path.stat().st_size}
        write_json(record, {**about, "checked": checked, "from": origin, "on": datetime.now(UTC).date().isoformat()})
    if path != target:
        with path.open("rb") as written:
            os.fsync(written.fileno())
        path.replace(target)
        version_file(path).unlink(missing_ok=True)
    return Fetched(target, how, sha256, checked)


def _local(file: OutsideFile, source: Path) -> Path:
    base = Path(file.name).name
    places = [source] if source.is_file() else [source / file.name, source / base]
    for place in places:
        if place.is_file() and (place != source or place.name == base):
            return place
    raise DataError(f"{source}: holds no {file.name} (nor {base}); correct --from, or leave it out to use the network")


def _copy(file: OutsideFile, local: Path, target: Path) -> Fetched:
    """Take a local copy: by a hard link where the disk allows it, else byte by byte."""
    verified = verify(file, local, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(local.resolve(), target)
    except OSError:
        # Another disk, or a file of another user.
        with atomic_path(target) as temporary:
            shutil.copyfile(local, temporary)
            verified = verify(file, temporary, target)
    return _keep(file, target, target, *verified, how="copied", origin=str(local))


def _mover(bar: Any, lock: threading.Lock) -> Callable[[int], None]:
    """Return what is told the position in one file, and moves the bar of all; bytes that come again do not count."""
    most = 0

    def progress(position: int) -> None:
        nonlocal most
        with lock:
            bar.update(max(0, position - most))
        most = max(most, position)

    return progress


# ---- what a file is checked against


def record_of(target: Path) -> Path:
    """Return where the hash of a fetched file is recorded."""
    return target.with_name(target.name + ".fetched.json")


def verify(file: OutsideFile, path: Path, target: Path) -> tuple[str, str]:
    """Check a file's bytes and return their sha256, and in words against what they were checked.

    Where no hash is published, the sha256 of the first fetch of ``target`` takes its place; where there is none
    either, the form must do: all entries of a zip or jar, a whole gzip, safe names in both, no web page.
    """
    again = "remove it and fetch it again"
    size = path.stat().st_size
    if file.bytes is not None and size != file.bytes:
        raise DataError(f"{path}: has {size} bytes where the list of files says {file.bytes}; {again}")
    sha256 = _digest(path, "sha256")
    if file.algorithm is not None and file.hash is not None:
        digest = sha256 if file.algorithm == "sha256" else _digest(path, file.algorithm)
        if digest != file.hash:
            raise DataError(f"{path}: its {file.algorithm} is {digest}, not {file.hash} as published; {again}")
        return sha256, f"published {file.algorithm}"
    recorded = record_of(target)
    if recorded.is_file():
        first = read_json(recorded, dict[str, str | int]).get("sha256")
        if first != sha256:
            raise DataError(
                f"{path}: its sha256 is {sha256}, but {first} was recorded at the first fetch; fetch it again, or "
                f"remove {recorded} if the publisher has changed the file"
            )
        return sha256, "sha256 of the first fetch"
    _check_form(path, file.name)
    return sha256, "form alone: no hash is published; its sha256 is recorded now"


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def _check_form(path: Path, name: str) -> None:
    """Refuse what cannot be the file before its hash is recorded, which would be defended from then on."""
    with path.open("rb") as file:
        head = file.read(512).lstrip().lower()
    if not head:
        raise DataError(f"{path}: is empty; remove it and fetch it again")
    if head.startswith((b"<!doctype html", b"<html")) and not name.endswith(".html"):
        raise DataError(f"{path}: is a web page, not {name}; remove it and fetch it again")
    try:
        if name.endswith((".zip", ".jar")):
            with zipfile.ZipFile(path) as archive:
                if (wrong := archive.testzip()) is not None:
                    raise zipfile.BadZipFile(f"the check sum of {wrong!r} is wrong")
        if name.endswith((".gz", ".tgz")):
            with gzip.open(path) as stream:
                while stream.read(2**20):
                    pass
        if name.endswith((".zip", ".tgz", ".tar.gz")):
            for _ in members(path, MemberNames(path)):
                pass
    except DAMAGED as error:
        raise damage(path, error) from error


# ---- one address into one part file


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


def download(url: str, part: Path, file: IO[bytes], *, size: int | None, hashed: bool, transfer: Transfer) -> bool:
    """Fetch ``url`` into a part file, continuing what is there already if it is the beginning of the same version.

    ``<part>.json`` says what that is the beginning of. If a published hash will check the bytes (``hashed``), a
    beginning may come from elsewhere. Returns whether the file was put together from more than one answer.
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
    before = _version(part)
    if start and before is not None:
        validator = before.validator if before.url == url else None
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
    offered, before, position = Version.offered(url, response), _version(part), file.seek(0, os.SEEK_END)
    if response.status_code == 416:
        # The server's own word on the size here counts more than a Content-Length of before.
        whole = re.fullmatch(r"bytes \*/(\d+)", response.headers.get("Content-Range", ""))
        if before is not None and position == (int(whole[1]) if whole else before.total):
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
        if encoded or before is None or not begins or before.differs(offered):
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
