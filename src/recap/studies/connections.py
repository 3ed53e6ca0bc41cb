"""Limits of the collection server's connections, so that clients that stall cannot lock raters out or keep it running.

A connection has `REQUEST_SECONDS` for a whole request, header and body, and `RESPONSE_SECONDS` to read the response. If
too many are open, the one that has kept its request unfinished for longest is closed in favor of a new one.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 30.0
RESPONSE_SECONDS = 300.0  # a form with its pictures inside, over a slow line
_MOST = 500  # open connections
_HANDLES = 4096  # that the process asks for
_OTHER_HANDLES = 64  # besides connections


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


class LimitedConnection(H11Protocol):
    """One connection, closed when it takes too long."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._most = most_connections()
        self._timer: asyncio.TimerHandle | None = None
        self._receiving = False
        self._since = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection; of too many, close another."""
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > self._most:
            others = [other for other in self.connections if isinstance(other, LimitedConnection) and other is not self]
            slowest = min(others, key=lambda other: (not other._receiving, other._since))
            self.connections.discard(slowest)
            slowest.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take what the client sent."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """End the connection because the server ends: a request that is not whole is not waited for."""
        super().shutdown()
        if self._receiving:
            self.transport.abort()

    def _watch(self) -> None:
        """Set the time limit of what the connection does now: send a request, or read the response."""
        receiving = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if self._timer is not None:
            if receiving and self._receiving:
                return  # bytes that trickle in gain no time
            self._timer.cancel()
        self._receiving, self._since = receiving, self.loop.time()
        seconds = REQUEST_SECONDS if receiving else RESPONSE_SECONDS
        self._timer = self.loop.call_later(seconds, self.transport.abort)
