"""Web servers on 127.0.0.1; that of a rehearsal has files
of a folder, and repositories as the HuggingFace hub has."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HUB = "hub"  # folder of the repositories
_COMMIT = "0" * 40  # what a repository is at where no commit is asked for
_MIRROR = re.compile(r"^mirror\d+/")  # where the other addresses of a file begin


class Handler(BaseHTTPRequestHandler):
    """Answers without a line of log."""

    protocol_version = "HTTP/1.1"

    def answer(
        self,
        status: int,
        body: bytes,
        headers: Mapping[str, str],
        *,
        length: int | None = None,
        sent: int | None = None,
    ) -> None:
        """Answer with a body, or its first ``sent`` bytes.

        The Content-Length may be another than its own.
        """
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:sent])

    def log_message(self, *arguments: object) -> None:
        """Stay silent."""


class Server(ThreadingHTTPServer):
    """A server at a port of 127.0.0.1 (0: a free one); ``ended`` is set when it is to end."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, handler: type[Handler], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self.ended = threading.Event()
        self.address = f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that hang up."""

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(
            target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            self.ended.set()
            self.shutdown()
            self.server_close()
            thread.join()


# Name of a file that is in no folder -> its bytes.
Made = Callable[[str], bytes | None]


class _Files(Handler):
    server: _FileServer

    def do_GET(self) -> None:
        path = self.path.lstrip("/").partition("?")[0]
        if ".." in path.split("/"):  # what lies above the folder is nobody's business
            self.answer(404, b"", {})
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
        said: dict[str, Any] = {
            "_id": _COMMIT,
            "id": repository,
            "modelId": repository,
            "sha": _commit(revision),
        }
        said |= {"private": False, "tags": [], "downloads": 0, "likes": 0, "siblings": names}
        self.answer(
            200 if names else 404, json.dumps(said).encode(), {"Content-Type": "application/json"}
        )

    def _file(self, name: str, headers: Mapping[str, str]) -> None:
        """Answer with a whole file."""
        content = self.server.content(_MIRROR.sub("", name, count=1))
        if content is None:
            return self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})
        return self.answer(200, content, {**headers, "ETag": f'"{sha256(content).hexdigest()}"'})


def _commit(revision: str | None) -> str:
    return revision if revision and re.fullmatch(r"[0-9a-f]{40}", revision) else _COMMIT


class _FileServer(Server):
    def __init__(self, port: int, folder: Path, made: Made) -> None:
        super().__init__(_Files, port)
        self.folder, self.made = folder, made

    def content(self, name: str) -> bytes | None:
        path = self.folder / name
        return path.read_bytes() if path.is_file() else self.made(name)


@contextmanager
def serve(folder: Path, *, made: Made = lambda _: None, port: int = 0) -> Iterator[str]:
    """Serve a folder and yield the address;
    ``hub/OWNER/NAME/FILE`` of it also as the HuggingFace hub would."""
    server = _FileServer(port, folder, made)
    with server.running():
        yield server.address
