"""A web server on 127.0.0.1 that serves bytes with Range and If-Range, and misbehaves on
request."""

import gzip
import socket
import struct
import time
from contextlib import contextmanager
from dataclasses import dataclass, field

from rehearsal.server import Handler, Server


@dataclass
class Site:
    """What is served, what goes wrong (one entry a request, first come first), and what
    happened."""

    files: dict[str, bytes]
    # (status, headers), "html"; [bytes] truncates, [bytes, "stall"] stalls, [bytes, "reset"] resets
    faults: dict[str, list] = field(default_factory=dict)
    etags: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    if_range: bool = True
    excess: int = 0  # of every Content-Length
    packed: bool = False  # gzip that nobody asked for
    block: int = 64 * 1024
    delay: float = 0.0
    sent: dict[str, int] = field(default_factory=dict)
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""

    def starts(self, name):
        """Return the first byte that each request for a file asked for."""
        return [
            int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
            for n, asked in self.requests
            if n == name
        ]


class _Files(Handler):
    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        site, name = self.server.site, self.path.lstrip("/")
        asked = self.headers.get("Range")
        site.requests.append((name, asked))
        fault = site.faults[name].pop(0) if site.faults.get(name) else None
        if isinstance(fault, tuple):
            return self.answer(fault[0], b"no", fault[1])
        if fault == "html":
            return self.answer(200, b"<!DOCTYPE html><p>sign in", {"Content-Type": "text/html"})
        if name not in site.files:
            return self.answer(404, b"no", {})
        content = gzip.compress(site.files[name]) if site.packed else site.files[name]
        etag = site.etags.get(name, f'"{hash(content)}"')
        headers = {"ETag": etag} if etag else {}
        if site.packed:
            headers["Content-Encoding"] = "gzip"
        start = 0
        if (
            asked
            and site.ranges
            and (not site.if_range or self.headers.get("If-Range", etag) == etag)
        ):
            start = int(asked.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                return self.answer(416, b"", {"Content-Range": f"bytes */{len(content)}"})
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return self.stream(name, content, start, headers, fault)

    def stream(self, name, content, start, headers, fault):
        site = self.server.site
        self.send_response(206 if "Content-Range" in headers else 200)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content) - start + site.excess))
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
        if isinstance(fault, list) and fault[1:] == ["reset"]:
            time.sleep(0.2)  # a reset takes away what the client has not read
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        if isinstance(fault, list) and fault[1:] == ["stall"]:
            self.server.ended.wait(30)


@contextmanager
def serve(files, **options):
    """Serve names -> bytes, also as a proxy for `http://...`; options are those of `Site`."""
    server = Server(_Files)
    server.site = Site(dict(files), **options, url=server.address)
    with server.running():
        yield server.site
