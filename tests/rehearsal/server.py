"""The web server of a rehearsal: files of a folder, and repositories as the HuggingFace hub has them."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HUB = "hub"  # folder of the repositories
_COMMIT = "0" * 40  # what a repository is at where no commit is asked for

_LONGEST_HOLD = 60.0  # seconds
_MIRROR = re.compile(r"mirror\d+/")  # where the other addresses of a file begin

Made = Callable[[str], bytes | None]


@dataclass(frozen=True)
class Reply:
    """An answer in place of the right one."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    sent: int | None = None  #: bytes of the body after which the connection is dropped; None: all
    held: threading.Event | None = None  #: what the drop waits for


# Path of an address, right content, first byte that is asked for -> answer.
Misbehave = Callable[[str, bytes, int], Reply | None]


def etag(content: bytes) -> str:
    """Return the validator of some bytes."""
    return f'"{sha256(content).hexdigest()}"'


def listed_name(path: str) -> str:
    """Return the name of a file from the path of one of its addresses."""
    return _MIRROR.sub("", path, count=1) if _MIRROR.match(path) else path


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, port: int, folder: Path, made: Made, misbehave: Misbehave) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.folder, self.made, self.misbehave = folder, made, misbehave

    def content(self, name: str) -> bytes | None:
        """Return the bytes of a file, or None."""
        path = self.folder / name
        return path.read_bytes() if path.is_file() else self.made(name)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that hang up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        """Answer."""
        path = self.path.lstrip("/").partition("?")[0]
        if ".." in path.split("/"):  # what lies above the folder is nobody's business
            self._answer(404, b"", {})
        elif repository := re.fullmatch(r"api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?", path):
            self._describe(*repository.groups())
        elif file := re.fullmatch(r"([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._file(f"{HUB}/{file[1]}/{file[3]}", {"X-Repo-Commit": _commit(file[2])})
        else:
            self._file(path, {})

    do_HEAD = do_GET

    def _describe(self, repository: str, revision: str | None) -> None:
        """Answer what the hub says of a repository."""
        folder = self.server.folder / HUB / repository
        names = [{"rfilename": path.name} for path in folder.iterdir()] if folder.is_dir() else []
        said: dict[str, Any] = {"_id": _COMMIT, "id": repository, "modelId": repository, "sha": _commit(revision)}
        said |= {"private": False, "tags": [], "downloads": 0, "likes": 0, "siblings": names}
        self._answer(200 if names else 404, json.dumps(said).encode(), {"Content-Type": "application/json"})

    def _file(self, name: str, headers: Mapping[str, str]) -> None:
        """Answer with a file, or with the rest of it if the client has the beginning of the same bytes."""
        content = self.server.content(listed_name(name))
        if content is None:
            return self._answer(404, b"", {"X-Error-Code": "EntryNotFound"})
        tag = etag(content)
        asked = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked and self.headers.get("If-Range", tag) == tag else 0
        if reply := self.server.misbehave(name, content, start):
            return self._answer(reply.status, reply.body, reply.headers, reply.sent, reply.held)
        if not start:
            return self._answer(200, content, {**headers, "ETag": tag})
        if start >= len(content):
            return self._answer(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        place = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return self._answer(206, content[start:], {**headers, "ETag": tag, "Content-Range": place})

    def _answer(
        self,
        status: int,
        body: bytes,
        headers: Mapping[str, str],
        sent: int | None = None,
        held: threading.Event | None = None,
    ) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:sent])
        if sent is not None:
            self.close_connection = True
        if held is not None:
            held.wait(_LONGEST_HOLD)

    def log_message(self, *arguments: object) -> None:
        """Stay silent."""


def _commit(revision: str | None) -> str:
    return revision if revision and re.fullmatch(r"[0-9a-f]{40}", revision) else _COMMIT


@contextmanager
def serve(
    folder: Path, *, made: Made = lambda _: None, port: int = 0, misbehave: Misbehave = lambda *_: None
) -> Iterator[str]:
    """Serve a folder on 127.0.0.1, and yield the address.

    Args:
        folder: of the files; ``hub/OWNER/NAME/FILE`` is also served as the HuggingFace hub would.
        made: name -> bytes of files that are in no folder.
        port: 0: a free one.
        misbehave: what is answered in place of a file; None: the file.
    """
    server = _Server(port, folder, made, misbehave)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
