"""Conceptual Captions in small: its TSV,
and a web server on 127.0.0.1 that serves pictures and spoils some."""

import threading
from collections import Counter
from contextlib import contextmanager

from rehearsal.server import Handler, Server
from rehearsal.world import picture

STATUSES = {"403": 403, "404": 404, "429": 429, "500": 500}
# Where it may redirect to besides.
ELSEWHERE = {
    "loop": "/loop/0.jpg",
    "inward": "http://169.254.169.254/latest/1.jpg",
    "file": "file:///etc/passwd",
}
# What a server may do with /<kind>/<number>.jpg;
# "flaky" and "busy" answer well from the second time on.
KINDS = (
    "ok",
    *STATUSES,
    "flaky",
    "busy",
    "cut",
    "half",
    "html",
    "empty",
    "noise",
    "stall",
    "drip",
    "huge",
    "moved",
)


def photo(number, *, edge=64):
    """Return a JPEG of ``edge`` x ``edge + 16`` pixels, whose bytes depend on ``number``."""
    return picture(number, (edge, edge + 16))


def write_tsv(path, rows):
    """Write rows of caption and url in the layout of Train_GCC-training.tsv."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{caption}\t{url}\n" for caption, url in rows), encoding="utf-8")
    return path


class _Pictures(Handler):
    protocol_version = "HTTP/1.0"

    def do_GET(self):
        # As a proxy it is asked for whole addresses.
        kind, number = self.path.rsplit("/", 2)[-2:]
        number = number.removesuffix(".jpg")
        with self.server.lock:
            self.server.asked[self.path] += 1
            first = self.server.asked[self.path] == 1
        if kind == "moved":
            return self.answer(302, b"", {"Location": f"/ok/{number}.jpg"})
        if kind in ELSEWHERE:
            return self.answer(302, b"", {"Location": ELSEWHERE[kind]})
        if kind in STATUSES or (first and kind in ("flaky", "busy")):
            status = STATUSES.get(kind, 500 if kind == "flaky" else 429)
            return self.answer(status, b"no", {"Retry-After": "0"} if status == 429 else {})
        return self._body(kind, photo(int(number)))

    def _body(self, kind, content):
        bodies = {
            "html": b"<!DOCTYPE html><html><body>This image is no longer available.</body></html>",
            "empty": b"",
            "noise": bytes(range(256)) * 8,
        }
        if kind == "cut":
            self.answer(200, content, {}, sent=len(content) // 2)
        elif kind == "half":
            # an old server: no length, so that only a decoder can tell that half is missing
            self.send_response(200)
            self.end_headers()
            self.wfile.write(content[:-60])
        elif kind == "stall":
            self.answer(200, content, {}, sent=100)
            self.server.ended.wait(self.server.stall)
        elif kind == "drip":  # every byte in time, the whole picture never
            self.answer(200, content, {}, sent=0)
            for byte in content:
                if self.server.ended.wait(0.2):
                    return
                self.wfile.write(bytes([byte]))
        else:
            self.answer(
                200, bodies.get(kind, content), {}, length=2**40 if kind == "huge" else None
            )


class _PictureServer(Server):
    def __init__(self, stall):
        super().__init__(_Pictures)
        self.stall = stall
        self.lock = threading.Lock()
        self.asked = Counter()

    def url(self, kind, number):
        """Return the url at which a picture is served in one of KINDS."""
        return f"{self.address}/{kind}/{number}.jpg"


@contextmanager
def picture_server(*, stall=60):
    """Serve pictures on a free port of 127.0.0.1; ``asked`` counts the requests of each path."""
    server = _PictureServer(stall)
    with server.running():
        yield server


def write_conceptual(folder, *, train, test):
    """Write both TSVs and what was downloaded of them.

    ``train`` and ``test`` name a kind of KINDS for each row.
    """
    from recap.data.datasets.conceptual_download import download

    with picture_server() as server:
        for name, kinds, first in (("train", train, 0), ("validation", test, 1000)):
            rows = [
                (f"photo {n} of a dog .", server.url(kind, first + n))
                for n, kind in enumerate(kinds)
            ]
            tsv = write_tsv(folder / f"{name}.tsv", rows)
            download(tsv=tsv, out=folder / "images" / name, min_side=32, attempts=1, timeout=5)
    return folder
