"""A web server on this machine: serves bytes with Range and If-Range, and misbehaves on request."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0" * 40  # what a hub's repository is at where no revision is asked for
Fault = tuple[int, dict[str, str]] | list[Any] | str


@dataclass
class Site:
    """What is served, what goes wrong, and what happened.

    Attributes:
        files: name -> bytes. ``hub/OWNER/NAME/FILE`` is also served as the HuggingFace hub would.
        faults: name -> one entry a request, first come first: (status, headers); ``html``, a page in place of the file;
            [bytes], truncated; [bytes, "stall"], and then nothing more.
        etags: name -> version, where it is not that of the bytes; empty: none is sent.
        ranges, if_range, lengths: whether the server knows Range, honors If-Range, and says lengths.
        block, delay: bytes that are sent at once, and seconds between them.
        sent: name -> bytes that were sent.
        requests: name and Range of each request for bytes.
        url: address of the server.
    """

    files: Mapping[str, bytes]
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    etags: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    if_range: bool = True
    lengths: bool = True
    block: int = 64 * 1024
    delay: float = 0.0
    sent: dict[str, int] = field(default_factory=dict)
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""

    def starts(self, name: str) -> list[int]:
        """Return the first byte that each request for a file asked for."""
        return [_first(asked) for each, asked in self.requests if each == name]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._serve()

    def do_HEAD(self) -> None:
        self._serve()

    def _serve(self) -> None:
        path = self.path.lstrip("/").partition("?")[0]
        if repository := re.fullmatch(r"api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?", path):
            self._describe(*repository.groups())
        elif part := re.fullmatch(r"([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._file(f"hub/{part[1]}/{part[3]}", {"X-Repo-Commit": _commit(part[2])})
        else:
            self._file(path, {})

    def _file(self, name: str, headers: dict[str, str]) -> None:
        """Answer with a file, or with what goes wrong this time."""
        site, asked = self.server.site, self.headers.get("Range")
        site.requests.append((name, asked))
        fault = site.faults[name].pop(0) if site.faults.get(name) else None
        if isinstance(fault, tuple):
            self._answer(fault[0], b"no", fault[1])
        elif fault == "html":
            self._answer(200, b"<!DOCTYPE html><p>sign in", {"Content-Type": "text/html"})
        elif name in site.files:
            self._content(name, site.files[name], asked, headers, fault)
        else:
            self._answer(404, b"no", {"X-Error-Code": "EntryNotFound"} if headers else {})

    def _content(self, name: str, content: bytes, asked: str | None, headers: dict[str, str], fault: Any) -> None:
        """Answer with the bytes of a file, from the first one that is asked for."""
        site = self.server.site
        etag = site.etags.get(name, f'"{hash(content)}"')
        headers |= {"ETag": etag} if etag else {}
        start = 0
        if asked and site.ranges and (not site.if_range or self.headers.get("If-Range", etag) == etag):
            start = _first(asked)
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        if start and start >= len(content):
            self._answer(416, b"", {"Content-Range": f"bytes */{len(content)}"})
        else:
            self._stream(name, content, start, headers, fault)

    def _describe(self, repository: str, revision: str | None) -> None:
        """Answer what the hub says of a repository."""
        begin = f"hub/{repository}/"
        names = [name.removeprefix(begin) for name in self.server.site.files if name.startswith(begin)]
        said: dict[str, Any] = {"_id": COMMIT, "id": repository, "modelId": repository, "sha": _commit(revision)}
        said |= {"private": False, "tags": [], "downloads": 0, "likes": 0}
        said["siblings"] = [{"rfilename": name} for name in names]
        found = (200, said) if names else (404, {"error": "Repository not found"})
        self._answer(found[0], json.dumps(found[1]).encode(), {"Content-Type": "application/json"})

    def _stream(self, name: str, content: bytes, start: int, headers: Mapping[str, str], fault: Any) -> None:
        site = self.server.site
        self.send_response(206 if "Content-Range" in headers else 200)
        for key, value in headers.items():
            self.send_header(key, value)
        if site.lengths:
            self.send_header("Content-Length", str(len(content) - start))
        else:
            self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        if self.command == "HEAD":
            return
        end = start + fault[0] if isinstance(fault, list) else len(content)
        for position in range(start, end, site.block):
            block = content[position : min(end, position + site.block)]
            try:
                self.wfile.write(block)
            except (BrokenPipeError, ConnectionResetError):
                return
            site.sent[name] = site.sent.get(name, 0) + len(block)
            time.sleep(site.delay)
        if isinstance(fault, list) and fault[1:] == ["stall"]:
            self.server.ended.wait(30)

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Stay silent."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, site: Site, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.site = site
        self.ended = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that hang up."""


def _first(asked: str | None) -> int:
    """Return the first byte that a Range asks for; the hub's library says the last one, too."""
    found = re.match(r"bytes=(\d+)-", asked or "")
    return int(found[1]) if found else 0


def _commit(revision: str | None) -> str:
    return revision if revision and re.fullmatch(r"[0-9a-f]{40}", revision) else COMMIT


@contextmanager
def serve(files: Mapping[str, bytes], *, port: int = 0, **options: Any) -> Iterator[Site]:
    """Serve files on 127.0.0.1, on a free port unless one is given; ``options`` are attributes of :class:`Site`."""
    site = Site(files, **options)
    server = _Server(site, port)
    site.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()


class Served(Mapping[str, bytes]):
    """The files of a folder by name, and those of another mapping that are made when they are asked for."""

    def __init__(self, folder: Any, made: Mapping[str, bytes]) -> None:
        self._folder, self._made = folder, made

    def __getitem__(self, name: str) -> bytes:
        path = self._folder / name
        if ".." not in name.split("/") and path.is_file():
            content: bytes = path.read_bytes()
            return content
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        try:
            self[str(name)]
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        yield from self._names()

    def __len__(self) -> int:
        return len(self._names())

    def _names(self) -> Sequence[str]:
        files = [path.relative_to(self._folder).as_posix() for path in self._folder.rglob("*") if path.is_file()]
        return [*files, *self._made]
