"""Limits of the collection server's connections, so that clients that stall cannot lock raters out or keep it running.

A connection has `REQUEST_SECONDS` for a whole request, header and body, and `RESPONSE_SECONDS` to read the response. If
too many are open, the one that has kept its request unfinished for longest is closed in favor of a new one. uvicorn has
neither limit; its protocol works behind each connection here.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 30.0
RESPONSE_SECONDS = 300.0  # a form with its pictures inside, over a slow line
_MOST = 500  # open connections
_HANDLES = 4096  # that the process asks for
_OTHER_HANDLES = 64  # besides connections

Message = MutableMapping[str, Any]  # of the ASGI
_open: dict[tuple[str, int], Connection] = {}  # by the client's address and port


def raise_handles() -> None:
    """Let the process open as many files as it may, up to `_HANDLES`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _HANDLES if hard == resource.RLIM_INFINITY else min(_HANDLES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def backlog() -> int:
    """Return how many new connections are accepted at once."""
    return max(1, min(_MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 8))


def most_connections() -> int:
    """Return how many connections may be open, so that the process never runs out of file handles.

    A connection that is one too many is closed four rounds of asyncio later; each may accept as many as `backlog`.
    """
    handles = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(1, min(_MOST, handles - 4 * backlog() - _OTHER_HANDLES))


class Connection(asyncio.Protocol):
    """One connection, closed when it takes too long.

    Attributes:
        arrived: whether its request is whole.
        since: when it was opened, on the clock of the event loop.
    """

    def __init__(self, **options: Any) -> None:
        self._http = H11Protocol(**options)
        self._loop = asyncio.get_running_loop()
        self.arrived = False
        self.since = self._loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection; of too many, close another."""
        if len(_open) >= most_connections():
            min(_open.values(), key=lambda other: (other.arrived, other.since)).abort()
        self._transport = transport
        self._client = transport.get_extra_info("peername")
        self._timer = self._loop.call_later(REQUEST_SECONDS, self.abort)
        _open[self._client] = self
        self._http.connection_made(transport)

    def request_arrived(self) -> None:
        """Set the time limit of the response."""
        if not self.arrived:
            self.arrived = True
            self._timer.cancel()
            self._timer = self._loop.call_later(RESPONSE_SECONDS, self.abort)

    def abort(self) -> None:
        """Close the connection, whatever it does."""
        self._forget()
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._forget()
        self._http.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass on what the client sent."""
        self._http.data_received(data)

    def eof_received(self) -> None:
        """Pass on that the client sends no more."""
        self._http.eof_received()

    def pause_writing(self) -> None:
        """Pass on that the client reads too slowly."""
        self._http.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the client reads again."""
        self._http.resume_writing()

    def _forget(self) -> None:
        self._timer.cancel()
        if _open.get(self._client) is self:
            del _open[self._client]


class Server(uvicorn.Server):
    """A server that does not wait at its end for requests that are not whole."""

    async def shutdown(self, sockets: list[Any] | None = None) -> None:
        """Close unfinished requests, then answer the others."""
        for connection in [each for each in _open.values() if not each.arrived]:
            connection.abort()
        await super().shutdown(sockets)


def watched(app: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """Return an ASGI application that tells its connection when the request is whole."""

    async def call(
        scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        def arrived() -> None:
            if connection := _open.get(scope["client"]):
                connection.request_arrived()

        async def receiving() -> Message:
            message = await receive()
            if not message.get("more_body"):
                arrived()
            return message

        async def sending(message: Message) -> None:
            arrived()  # of a request without a body, nothing is received
            await send(message)

        await app(scope, receiving, sending)

    return call
