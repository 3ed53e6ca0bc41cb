"""Miniature archives: zips and tgz's that are written once, with the members of the published
ones."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

Content = bytes | str | dict[str, object]
_DATE = (2014, 1, 1, 0, 0, 0)


def as_bytes(content: Content) -> bytes:
    """Return bytes as they are, text as UTF-8, a mapping as JSON."""
    if isinstance(content, bytes):
        return content
    return (content if isinstance(content, str) else json.dumps(content)).encode()


def write_zip(path: Path, files: Mapping[str, Content]) -> None:
    """Write a zip; equal files give equal bytes, at any time."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _DATE), as_bytes(content), zipfile.ZIP_DEFLATED)


def write_tgz(path: Path, files: Mapping[str, Content]) -> None:
    """Write a tgz; equal files give equal bytes, at any time."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, content in files.items():
            data = as_bytes(content)
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    path.write_bytes(gzip.compress(plain.getvalue(), mtime=0))
