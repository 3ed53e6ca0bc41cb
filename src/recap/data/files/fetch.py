"""Outside files into the inputs folder: from a local copy or from the network, verified before they get their names."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import threading
import zipfile
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from recap.core.errors import DataError, RecapError
from recap.core.files.atomic import atomic_path, naming_full_disk
from recap.core.files.json_files import read_json, write_json
from recap.core.log import log
from recap.core.progress import byte_bar
from recap.data.files.download import DownloadError, Transfer, discard, download, identity_file, locked_part, restart
from recap.settings.versions import OutsideFile


@dataclass(frozen=True)
class Fetched:
    """What became of one file: ``how`` is 'there', 'copied' or 'downloaded'."""

    name: str
    path: Path
    how: str
    sha256: str
    checked: str


def fetch_files(
    files: Sequence[OutsideFile], *, into: Path, source: Path | None = None, workers: int = 4, transfer: Transfer
) -> list[Fetched]:
    """Bring files into a folder, several at once; a file that is there already is verified and kept.

    Args:
        files: what to bring.
        into: the folder; ``coco/x.zip`` becomes ``into/coco/x.zip`` with ``x.zip.fetched.json`` beside it.
        source: a file, or a folder with ``coco/x.zip`` or ``x.zip`` in it, taken instead of the network.
        workers: how many files at once.
        transfer: time limits; its progress is replaced by a bar.

    Raises:
        DataError: a file cannot be had, or is not what its hash says; the other files are finished first.
    """
    stop = threading.Event()
    with _Bar([file.bytes for file in files]) as bar, ThreadPoolExecutor(workers) as pool:

        def one(file: OutsideFile) -> Fetched | RecapError:
            own = replace(transfer, progress=bar.of(file.name), stop=stop)
            try:
                with naming_full_disk(into / file.name):
                    return fetch_file(file, into=into, source=source, transfer=own)
            except RecapError as error:
                return error
            except OSError as error:
                return DataError(f"{into / file.name}: cannot be read or written ({error}); correct the folder")

        try:
            done = list(pool.map(one, files))
        except BaseException:
            stop.set()
            raise
    failed = [result for result in done if isinstance(result, RecapError)]
    if failed:
        others = f" (and {len(failed) - 1} other files failed)" if len(failed) > 1 else ""
        for error in failed[1:]:
            log.error(f"recap: {error}")
        raise DataError(f"{failed[0]}{others}")
    return [result for result in done if isinstance(result, Fetched)]


def fetch_file(file: OutsideFile, *, into: Path, source: Path | None, transfer: Transfer) -> Fetched:
    """Bring one file; see ``fetch_files``."""
    target = into / file.name
    if target.is_file():
        return _keep(file, target, target, *verify(file, target, record_of(target)), how="there", origin=None)
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
            discard(part)
    raise DataError(
        f"{file.name}: could not be fetched ({'; '.join(problems)}); run it again later, or fetch it by hand and "
        f"give the copy with --from"
    )


def verify(file: OutsideFile, path: Path, recorded: Path) -> tuple[str, str]:
    """Check a file's bytes and return their sha256, and in words against what they were checked.

    Where no hash is published, the sha256 in ``recorded``, measured at the first fetch, takes its place; where there is
    none either, the form (a whole zip, a whole gzip, no web page) must do.

    Raises:
        DataError: size, hash or form are wrong.
    """
    size = path.stat().st_size
    if file.bytes is not None and size != file.bytes:
        raise DataError(
            f"{path}: has {size} bytes where the list of files says {file.bytes}; remove it and fetch it again"
        )
    digests = {"sha256": _digest(path, "sha256")}
    if file.algorithm is not None and file.hash is not None:
        found = digests.get(file.algorithm) or _digest(path, file.algorithm)
        if found != file.hash:
            raise DataError(
                f"{path}: its {file.algorithm} is {found}, not {file.hash} as published; remove it and fetch it again"
            )
        return digests["sha256"], f"published {file.algorithm}"
    if recorded.is_file():
        first = _recorded(recorded)
        if first != digests["sha256"]:
            raise DataError(
                f"{path}: its sha256 is {digests['sha256']}, but {first} was recorded at the first fetch; "
                f"fetch it again, or remove {recorded} if the publisher has changed the file"
            )
        return digests["sha256"], "sha256 of the first fetch"
    _check_form(path, file.name)
    return digests["sha256"], "form alone: no hash is published; its sha256 is recorded now"


def record_of(target: Path) -> Path:
    """Return where the hash of a fetched file is recorded."""
    return target.with_name(target.name + ".fetched.json")


def _download(file: OutsideFile, url: str, part: Path, opened: IO[bytes], target: Path, transfer: Transfer) -> Fetched:
    """Fetch from one address; wrong bytes that were put together from several answers get a second, whole try."""
    joined = download(url, part, opened, size=file.bytes, hashed=file.hash is not None, transfer=transfer)
    try:
        return _keep(file, part, target, *verify(file, part, record_of(target)), how="downloaded", origin=url)
    except DataError as error:
        restart(part, opened)
        if joined:
            return _download(file, url, part, opened, target, transfer)
        raise DownloadError(f"{url}: {error}") from error


def _keep(
    file: OutsideFile, path: Path, target: Path, sha256: str, checked: str, *, how: str, origin: str | None
) -> Fetched:
    """Record the hash of the verified file ``path``, and give it its name."""
    record = record_of(target)
    if how != "there" or not record.is_file():
        about = {"name": file.name, "version": file.version, "sha256": sha256, "bytes": path.stat().st_size}
        day = datetime.now(UTC).date().isoformat()
        write_json(record, {**about, "checked": checked, "from": origin or "a local copy", "on": day})
    if path != target:
        with path.open("rb") as written:
            os.fsync(written.fileno())
        path.replace(target)
        identity_file(path).unlink(missing_ok=True)
    return Fetched(file.name, target, how, sha256, checked)


def _local(file: OutsideFile, source: Path) -> Path:
    base = Path(file.name).name
    places = [source] if source.is_file() else [source / file.name, source / base]
    for place in places:
        if place.is_file() and (place != source or place.name == base):
            return place
    raise DataError(f"{source}: holds no {file.name} (nor {base}); correct --from, or leave it out to use the network")


def _copy(file: OutsideFile, local: Path, target: Path) -> Fetched:
    """Take a local copy: by a hard link where the disk allows it, else byte by byte."""
    verified = verify(file, local, record_of(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(local.resolve(), target)
    except OSError:
        # Another disk, or a file of another user.
        with atomic_path(target) as temporary:
            shutil.copyfile(local, temporary)
            verified = verify(file, temporary, record_of(target))
    return _keep(file, target, target, *verified, how="copied", origin=str(local))


def _digest(path: Path, algorithm: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def _recorded(record: Path) -> str:
    values = read_json(record)
    if not isinstance(values, dict) or not isinstance(values.get("sha256"), str):
        raise DataError(f"{record}: no record of a fetched file; remove it and fetch the file again")
    return str(values["sha256"])


def _check_form(path: Path, name: str) -> None:
    """Refuse what cannot be the file: a web page, a zip or gzip that is not whole, an empty file."""
    with path.open("rb") as file:
        head = file.read(512).lstrip().lower()
    if not head:
        raise DataError(f"{path}: is empty; remove it and fetch it again")
    if head.startswith((b"<!doctype html", b"<html")) and not name.endswith(".html"):
        raise DataError(f"{path}: is a web page, not {name}; remove it and fetch it again")
    if name.endswith(".zip") and not zipfile.is_zipfile(path):
        raise DataError(f"{path}: is no whole zip; remove it and fetch it again")
    if name.endswith((".gz", ".tgz")):
        try:
            with gzip.open(path) as stream:
                while stream.read(2**20):
                    pass
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path}: is no whole gzip ({error}); remove it and fetch it again") from error


class _Bar:
    """One bar of bytes over all files; a line every ten seconds where standard error is no terminal."""

    def __init__(self, sizes: Sequence[int | None]) -> None:
        known = sum(size for size in sizes if size is not None)
        self._bar = byte_bar("fetch", total=known if None not in sizes else None)
        self._lock = threading.Lock()
        self._positions: dict[str, int] = {}

    def of(self, name: str) -> Any:
        """Return what is told the position in one file; the first position counts as there already."""

        def progress(position: int) -> None:
            with self._lock:
                self._bar.update(max(0, position - self._positions.get(name, 0)))
                self._positions[name] = position

        return progress

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()
