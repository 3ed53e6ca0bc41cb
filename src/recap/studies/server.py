"""The collection server: gives each rater the form
of their link and stores what is sent, on 127.0.0.1.

A link has a secret token, which whoever runs the study hands out. Behind a proxy that adds TLS, and
the limits that strangers need (docs/guides/studies.md), it serves others; it writes no log of
requests, and so no network address.
"""

from __future__ import annotations

import asyncio
import csv
import re
import secrets
import socket
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from recap.core.errors import ConfigError, DataError, first_line
from recap.core.files import csv_text, reading, write_text
from recap.core.log import log
from recap.studies.forms import inside, page, policy
from recap.studies.responses import parsed, valid_response
from recap.studies.sheets import Sheets

LOCAL = ("127.0.0.1", "localhost")
MAX_BYTES = 2**17  # of a response; 55 items take 3 KiB
REQUEST_SECONDS = 30  # for the body of a request
LOCKED_SECONDS = 10  # that a response waits for another process to release the file of responses
MOST_CONNECTIONS = 500  # above, uvicorn answers 503
STOP_SECONDS = 15  # for requests that have arrived
BUSY = (
    "Your answers could not be stored. Try again in a minute, or tell the person who gave you the "
    "link.\n"
)
UNKNOWN = "This link is not valid. Ask the person who gave it to you for a new one.\n"
HEADERS = {
    "Cache-Control": "no-store",
    "Connection": "close",
    "Content-Security-Policy": f"{policy()}; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_TOKEN = re.compile(r"[A-Za-z0-9_-]{22,}")  # so many characters have 16 bytes of randomness
_TABLE = """
CREATE TABLE IF NOT EXISTS submissions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    sheet TEXT NOT NULL,
    content TEXT NOT NULL,
    UNIQUE (sheet, content)
)
"""


class Store:
    """The SQLite file of the responses, which only its owner may read.

    `recap study import` takes each sheet's last.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.chmod(0o600)
        with self._transaction() as connection:
            connection.execute(_TABLE)

    def add(self, sheet: str, content: str) -> None:
        """Store a submission in place of an equal one; when this returns, it is on the disk."""
        with self._transaction() as connection:
            connection.execute(
                "DELETE FROM submissions WHERE sheet = ? AND content = ?", (sheet, content)
            )
            connection.execute(
                "INSERT INTO submissions (sheet, content) VALUES (?, ?)", (sheet, content)
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        # The file is opened for each response, so that one
        # that was removed or replaced meanwhile receives none.
        file = f"{self.path.absolute().as_uri()}?mode=rw"
        try:
            opened = sqlite3.connect(
                file, timeout=LOCKED_SECONDS, isolation_level="IMMEDIATE", uri=True
            )
            with closing(opened) as connection, connection:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")  # each commit is synced
                yield connection
        except sqlite3.Error as error:
            raise DataError(
                f"{self.path}: cannot hold responses ({error}); restore it, or name another file"
            ) from error


def links(sheets: Sheets, path: Path, address: str) -> dict[str, str]:
    """Return token -> sheet, drawn once and stored with the links in a CSV for its owner only."""
    tokens = {sheet.id: secrets.token_urlsafe(16) for sheet in sheets.sheets}
    if path.exists():
        again = "remove it, and new links are made, or name another file with --links"
        with reading(path, damaged=again), path.open(encoding="utf-8", newline="") as file:
            tokens = {
                line.get("sheet", ""): line.get("token") or "" for line in csv.DictReader(file)
            }
        distinct = len(set(tokens.values())) == len(tokens)
        if (
            not distinct
            or set(tokens) != set(sheets.by_id)
            or not all(map(_TOKEN.fullmatch, tokens.values()))
        ):
            raise DataError(f"{path}: its links are damaged, or of another study; {again}")
    rows = ([sheet, token, f"{address}/{token}"] for sheet, token in tokens.items())
    write_text(path, csv_text([["sheet", "token", "link"], *rows]))
    path.chmod(0o600)
    return {token: sheet for sheet, token in tokens.items()}


def make_app(  # noqa: C901
    sheets: Sheets, pictures: dict[str, bytes], tokens: Mapping[str, str], store: Store, host: str
) -> Starlette:
    """Return the web application, which answers requests for `LOCAL` and `host` alone."""
    source = inside(pictures)

    def plain(text: str, status: int) -> Response:
        return PlainTextResponse(text.encode("utf-8", "replace"), status, HEADERS)

    async def answer(request: Request) -> Response:
        sheet = sheets.by_id.get(tokens.get(request.path_params["path"], ""))
        if sheet is None:
            return plain(UNKNOWN, 403)
        if request.method != "POST":
            return HTMLResponse(page(sheets, sheet, source, online=True), headers=HEADERS)
        content = b""
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                async for piece in request.stream():
                    content += piece
                    if len(content) > MAX_BYTES:
                        return plain("The response is too long.\n", 413)
            response = valid_response(parsed(content), sheets)
        except (ClientDisconnect, TimeoutError, asyncio.CancelledError):
            return plain("The response is incomplete.\n", 400)
        except DataError as error:
            return plain(f"The response {error}.\n", 422)
        if response.sheet != sheet.id or response.simulated or not response.finished:
            return plain("The response is not the finished form of this link.\n", 422)
        try:
            # Acknowledged only when it is on the disk.
            await run_in_threadpool(store.add, sheet.id, response.content())
        except (DataError, asyncio.CancelledError) as error:
            # a second Ctrl-C while the file of responses is locked
            log.error(str(error) or "stopped while a response was stored")
            return plain(BUSY, 503)
        return plain("received\n", 200)

    middleware = [Middleware(TrustedHostMiddleware, allowed_hosts=[*LOCAL, host])]
    return Starlette(
        routes=[Route("/{path:path}", answer, methods=["GET", "POST"])], middleware=middleware
    )


def public_host(address: str) -> str:
    """Return the host name of a public address, which is http or https."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"--address {address}: give an address such as https://study.example.org")
    return parts.hostname


def serve(app: Starlette, port: int) -> None:
    """Serve on 127.0.0.1 until Ctrl-C or SIGTERM; requests that have arrived are answered first."""
    try:
        listener = socket.create_server((LOCAL[0], port))
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"--port {port}: cannot be served ({first_line(error)}); name another with --port N"
        ) from error
    log.info(f"serving on http://127.0.0.1:{port}, until Ctrl-C")
    config = uvicorn.Config(
        app,
        lifespan="off",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=STOP_SECONDS,
        access_log=False,
        log_level="error",
        server_header=False,
    )
    uvicorn.Server(config).run(sockets=[listener])
