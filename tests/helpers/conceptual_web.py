"""Conceptual Captions in small: its TSV, and a web server on 127.0.0.1 that serves pictures and spoils some."""

from __future__ import annotations

import io
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from PIL import Image

STATUSES = {"403": 403, "404": 404, "429": 429, "500": 500}
# Where it may redirect to besides.
ELSEWHERE = {"loop": "/loop/0.jpg", "inward": "http://169.254.169.254/latest/1.jpg", "file": "file:///etc/passwd"}
# What a server may do with /<kind>/<number>.jpg; "flaky" and "busy" answer well from the second time on.
KINDS = ("ok", *STATUSES, "flaky", "busy", "cut", "half", "html", "empty", "noise", "stall", "drip", "huge", "moved")


def photo(number: int, *, edge: int = 64) -> bytes:
    """Return a JPEG of ``edge`` x ``edge + 16`` pixels in stripes, whose bytes depend on ``number``."""
    picture = Image.new("RGB", (edge, edge + 16), (number * 37 % 256, number * 91 % 256, number // 256 % 256))
    picture.paste((number % 251, 40, 200), (0, 0, edge, 1 + number % edge))
    content = io.BytesIO()
    picture.save(content, format="JPEG")
    return content.getvalue()


def write_tsv(path: Path, rows: Sequence[tuple[str, str]]) -> Path:
    """Write rows of caption and url in the layout of Train_GCC-training.tsv."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{caption}\t{url}\n" for caption, url in rows), encoding="utf-8")
    return path


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def log_message(self, *arguments: object) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        # As a proxy it is asked for whole addresses.
        kind, number = self.path.rsplit("/", 2)[-2:]
        number = number.removesuffix(".jpg")
        with self.server.lock:
            self.server.asked[self.path] += 1
            first = self.server.asked[self.path] == 1
        if kind == "moved":
            return self._answer(302, b"", Location=f"/ok/{number}.jpg")
        if kind in ELSEWHERE:
            return self._answer(302, b"", Location=ELSEWHERE[kind])
        if kind in STATUSES or (first and kind in ("flaky", "busy")):
            status = STATUSES.get(kind, 500 if kind == "flaky" else 429)
            extra = {"Retry-After": "0"} if status == 429 else {}
            return self._answer(status, b"no", **extra)
        return self._body(kind, photo(int(number)))

    def _body(self, kind: str, content: bytes) -> None:
        if kind == "cut":
            self._answer(200, content[: len(content) // 2], length=len(content))
        elif kind == "half":  # an old server: no length, so that only a decoder can tell that half is missing
            self._answer(200, content[:-60], length=None)
        elif kind == "html":
            self._answer(200, b"<!DOCTYPE html><html><body>This image is no longer available.</body></html>")
        elif kind == "empty":
            self._answer(200, b"")
        elif kind == "noise":
            self._answer(200, bytes(range(256)) * 8)
        elif kind == "stall":
            self._answer(200, content[:100], length=len(content))
            self.server.closing.wait(self.server.stall)
        elif kind == "drip":  # every byte in time, the whole picture never
            self._answer(200, b"", length=len(content))
            for byte in content:
                if self.server.closing.wait(0.2):
                    return
                self.wfile.write(bytes([byte]))
        elif kind == "huge":
            self._answer(200, content, length=2**40)
        else:
            self._answer(200, content)

    def _answer(self, status: int, content: bytes, length: int | None = -1, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if length is not None:
            self.send_header("Content-Length", str(len(content) if length < 0 else length))
        self.end_headers()
        self.wfile.write(content)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, stall: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.stall = stall
        self.lock = threading.Lock()
        self.closing = threading.Event()
        self.asked: Counter[str] = Counter()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that hang up."""

    def url(self, kind: str, number: int) -> str:
        """Return the url at which a picture is served in one of KINDS."""
        return f"http://127.0.0.1:{self.server_port}/{kind}/{number}.jpg"


@contextmanager
def picture_server(*, stall: float = 60) -> Iterator[_Server]:
    """Serve pictures on a free port of 127.0.0.1; ``asked`` counts the requests of each path."""
    server = _Server(stall)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


def write_conceptual(folder: Path, *, train: Sequence[str], test: Sequence[str]) -> Path:
    """Write both TSVs and what was downloaded of them; ``train`` and ``test`` name a kind of KINDS for each row."""
    from recap.data.datasets.conceptual_download import download

    with picture_server() as server:
        for name, kinds, first in (("train", train, 0), ("validation", test, 1000)):
            rows = [(f"photo {n} of a dog .", server.url(kind, first + n)) for n, kind in enumerate(kinds)]
            tsv = write_tsv(folder / f"{name}.tsv", rows)
            download(tsv=tsv, out=folder / "images" / name, min_side=32, attempts=1, rounds=1, timeout=5)
    return folder
