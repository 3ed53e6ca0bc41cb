"""Outside files into the inputs folder:
from a local copy or from the network, verified before they get their names.

A download is never trusted: what a server sends is compared with the published hash, or with the
hash of the first fetch, or has the form that its name says.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import zipfile
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from recap.core.documents import read_json, write_json
from recap.core.errors import DataError, RecapError
from recap.core.files import atomic_path, writing
from recap.core.hashing import sha256_file
from recap.core.log import byte_bar, log
from recap.core.process import limited_memory
from recap.data.files.archives import CHUNK, DAMAGED, MemberNames, damage, members
from recap.data.files.download import DownloadError, Part, Transfer, download, locked_part
from recap.settings.versions import OutsideFile


@dataclass(frozen=True)
class Fetched:
    """What became of one file: ``how`` is 'there', 'copied' or 'downloaded'."""

    path: Path
    how: str
    sha256: str
    checked: str


@limited_memory()
def fetch_files(
    files: Sequence[OutsideFile],
    *,
    into: Path,
    source: Path | None = None,
    workers: int = 4,
    transfer: Transfer,
) -> list[Fetched]:
    """Bring files into a folder, several at once; a file that is there already is verified and
    stays.

    ``coco/x.zip`` of ``source`` (a file, or a folder with it or with ``x.zip``) is taken instead of
    the network.
    """
    total = sum(file.bytes or 0 for file in files) if all(file.bytes for file in files) else None
    with closing(byte_bar(total=total)) as bar, ThreadPool(workers) as pool:

        def one(file: OutsideFile) -> Fetched | RecapError:
            telling = replace(transfer, progress=bar.update)
            try:
                with writing(into / file.name):
                    return fetch_file(file, into=into, source=source, transfer=telling)
            except RecapError as error:
                return error

        results = list(pool.imap(one, files))
    failed = [result for result in results if isinstance(result, RecapError)]
    for error in failed[1:]:
        log.error(f"recap: {error}")
    if failed:
        raise failed[0]
    return [result for result in results if isinstance(result, Fetched)]


def fetch_file(
    file: OutsideFile, *, into: Path, source: Path | None, transfer: Transfer
) -> Fetched:
    """Bring one file; see ``fetch_files``."""
    target = into / file.name
    if target.is_file():
        return _named(
            file, target, target, *verify(file, target, target), how="there", origin="a local copy"
        )
    if source is not None:
        return _copy(file, source, target)
    problems = []
    with locked_part(target.with_name(target.name + ".part")) as part:
        for url in file.urls:
            try:
                return _download(file, url, part, target, transfer)
            except DownloadError as error:
                problems.append(str(error))
        if not part.size:
            part.path.unlink()
            part.record.unlink(missing_ok=True)
    raise DataError(
        f"{file.name}: could not be fetched ({'; '.join(problems) or 'it has no address'}); run it "
        f"again later, or put it at {target} by hand, or give a copy with --from. {file.note}"
    )


def _download(file: OutsideFile, url: str, part: Part, target: Path, transfer: Transfer) -> Fetched:
    """Fetch from one address; wrong bytes from several answers get a second, whole try."""
    joined = download(url, part, size=file.bytes, hashed=file.hash is not None, transfer=transfer)
    try:
        verified = verify(file, part.path, target)
    except DataError as error:
        part.restart()
        if joined:
            return _download(file, url, part, target, transfer)
        raise DownloadError(f"{url}: {error}") from error
    os.fsync(part.file.fileno())
    fetched = _named(file, part.path, target, *verified, how="downloaded", origin=url)
    part.record.unlink(missing_ok=True)
    return fetched


def _copy(file: OutsideFile, source: Path, target: Path) -> Fetched:
    """Take a local copy: by a hard link where the disk allows it, else byte by byte."""
    base = Path(file.name).name
    places = [source] if source.name == base else []
    local = next(filter(Path.is_file, [*places, source / file.name, source / base]), None)
    if local is None:
        raise DataError(
            f"{source}: holds no {file.name} (nor {base}); correct --from, or leave it out to use "
            "the network"
        )
    verified = verify(file, local, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(local.resolve(), target)
    except OSError:
        # Another disk, or a file of another user.
        with atomic_path(target) as temporary:
            shutil.copyfile(local, temporary)
            verified = verify(file, temporary, target)
    return _named(file, target, target, *verified, how="copied", origin=str(local))


def _named(
    file: OutsideFile, path: Path, target: Path, sha256: str, checked: str, *, how: str, origin: str
) -> Fetched:
    """Record the hash of the verified file ``path``, and give it its name."""
    record = record_of(target)
    if how != "there" or not record.is_file():
        about = {
            "name": file.name,
            "version": file.version,
            "sha256": sha256,
            "bytes": path.stat().st_size,
            "checked": checked,
            "from": origin,
            "on": datetime.now(UTC).date().isoformat(),
        }
        write_json(record, about)
    if path != target:
        path.replace(target)
    return Fetched(target, how, sha256, checked)


def record_of(target: Path) -> Path:
    """Return where the hash of a fetched file is recorded."""
    return target.with_name(target.name + ".fetched.json")


def verify(file: OutsideFile, path: Path, target: Path) -> tuple[str, str]:
    """Check a file's bytes and return their sha256, and in words against what they were checked.

    Where no hash is published, the sha256 of the first fetch of ``target`` takes its place; where
    there is none either, the form must do: all entries of a zip or jar, a whole gzip, safe names in
    both, no web page.
    """
    size = path.stat().st_size
    if file.bytes is not None and size != file.bytes:
        raise DataError(
            f"{path}: has {size} bytes where the list of files says {file.bytes}; remove it and "
            "fetch it again"
        )
    digest = sha256 = sha256_file(path)
    recorded = record_of(target)
    if file.algorithm is not None:
        expected: Any = file.hash
        against = f"published {file.algorithm}"
        if file.algorithm != "sha256":
            algorithm = partial(hashlib.new, file.algorithm, usedforsecurity=False)
            with path.open("rb") as content:
                digest = hashlib.file_digest(content, algorithm).hexdigest()
    elif recorded.is_file():
        expected = read_json(recorded, dict[str, str | int]).get("sha256")
        against = "sha256 of the first fetch"
    else:
        _check_form(path, file.name)
        return sha256, "form alone: no hash is published; its sha256 is recorded now"
    if digest != expected:
        raise DataError(
            f"{path}: has the hash {digest}, not the {against}, {expected}; remove it and fetch it "
            f"again (or remove {recorded}, if no hash is published and the file was changed)"
        )
    return sha256, against


def _check_form(path: Path, name: str) -> None:
    """Refuse what cannot be the file before its hash is recorded, which then is defended."""
    with path.open("rb") as file:
        head = file.read(512).lstrip().lower()
    if not head or (head.startswith((b"<!doctype html", b"<html")) and not name.endswith(".html")):
        raise DataError(
            f"{path}: is empty, or a web page in place of {name}; remove it and fetch it again"
        )
    try:
        if name.endswith((".zip", ".jar")):
            with zipfile.ZipFile(path) as archive:
                if (wrong := archive.testzip()) is not None:
                    raise zipfile.BadZipFile(f"the check sum of {wrong!r} is wrong")
        if name.endswith((".gz", ".tgz")):
            with gzip.open(path) as stream:
                while stream.read(CHUNK):
                    pass
        if name.endswith((".zip", ".tgz", ".tar.gz")):
            deque(members(path, MemberNames(path)), maxlen=0)
    except DAMAGED as error:
        raise damage(path, error) from error
