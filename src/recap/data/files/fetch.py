"""Outside files into the inputs folder: from a local copy or from the network, verified before they get their names."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from recap.core.documents import write_json
from recap.core.errors import DataError, RecapError
from recap.core.files import atomic_path, writing
from recap.core.log import byte_bar, log
from recap.core.process import at_once, limited_memory
from recap.data.files.download import Transfer, download, locked_part, restart, version_file
from recap.data.files.redirects import DownloadError
from recap.data.files.verify import record_of, verify
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

        done = at_once(one, files, workers=workers, stop=stop)
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
