"""Where a redirect of a public address may lead: to public addresses of the web."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from recap.core.errors import RecapError, first_line

if TYPE_CHECKING:
    from requests import Response, Session

MOST = 5  # redirects in a row; a loop is given up after as many requests


class DownloadError(RecapError):
    """This address does not give the file; another may."""


def guarded_session(url: str) -> Session:
    """Return a session for one address that follows few redirects, and raises DownloadError at one that is refused."""
    import requests

    def check(response: Response, **_: Any) -> None:
        if response.is_redirect:
            problem = redirect_problem(url, urljoin(response.url, response.headers["location"]))
            if problem:
                raise DownloadError(f"{url}: {problem}")

    session = requests.Session()
    session.max_redirects = MOST
    session.hooks["response"].append(check)
    return session


def reason_of(error: Exception) -> str:
    """Return what a failed request ended with, without the pools and retries that the libraries wrap it in."""
    inner: object = error
    while isinstance(inner, Exception):
        error = inner
        inner = getattr(error, "reason", None) or next((a for a in error.args[::-1] if isinstance(a, Exception)), None)
    words = getattr(error, "strerror", None) or first_line(error).rpartition("): ")[2]
    return re.sub(r"^\w+\((.*)\)$", r"\1", words)  # IncompleteRead(5 bytes read, 9 more expected)


def redirect_problem(listed: str, target: str) -> str | None:
    """Return why a redirect is not followed, or None.

    A server somewhere could otherwise have files of this machine and of its network read: what it may name is http or
    https, and no loopback, private or link-local address, unless the listed address itself is one.

    Args:
        listed: the address that was asked for.
        target: the absolute address that the answer names.
    """
    if urlsplit(target).scheme not in ("http", "https"):
        return f"redirects to {target[:200]}, which is no address of the web"
    if _is_internal(target) and not _is_internal(listed):
        return f"redirects to {target[:200]}, an address within this machine or its network"
    return None


def _is_internal(url: str) -> bool:
    """Say whether a host has an address that is not public; a name that is not known here is left to a proxy."""
    try:
        parts = urlsplit(url)
        found = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        return False
    return any(not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_global for *_, address in found)
