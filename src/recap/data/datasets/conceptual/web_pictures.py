"""Fetches pictures from the open web: every wait has an end, every failure has a name."""

from __future__ import annotations

import asyncio
import hashlib
import io
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from recap.core.errors import DataError
from recap.data.files.fetch import MOST, redirect_problem
from recap.data.files.images import BrokenPicture, TooManyPixels, decode_rgb

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

MAX_DOWNLOAD = 64 * 2**20
PER_HOST = 16
LONGEST_WAIT = 30.0
LONGEST_JPEG = 65_500  # pixels of a side that libjpeg writes at most
_REDIRECTS = (301, 302, 303, 307, 308)
_PASSING = {408, 425, 429, 500, 502, 503, 504}
_AGENT = "recap (image-caption research; fetches each picture once)"


class Failure(Exception):
    """Why a picture was not had: a status of one or two words, a detail, and whether asking again may help."""

    def __init__(self, status: str, detail: str = "", *, passing: bool = False, wait: float | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.detail = " ".join(detail.split())[:200]
        self.passing = passing
        self.wait = wait


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture ready to be stored: JPEG bytes, their size, and what was fetched."""

    content: bytes
    width: int
    height: int
    original_width: int
    original_height: int
    source_sha256: str


class Web:
    """Asks for pictures, at most ``workers`` at once, each request within ``limit`` seconds."""

    def __init__(self, session: ClientSession, *, workers: int, attempts: int, backoff: float) -> None:
        self.session = session
        self.attempts = attempts
        self.backoff = backoff
        self.asked = 0
        self._free = asyncio.Semaphore(workers)

    async def fetch(self, url: str) -> bytes:
        """Return the bytes behind a url; a failure that may pass is tried again after a growing backoff."""
        for attempt in range(self.attempts):
            try:
                async with self._free:
                    self.asked += 1
                    return await self._get(url)
            except Failure as failure:
                if not failure.passing or attempt + 1 == self.attempts:
                    raise
                wait = self.backoff * 2**attempt if failure.wait is None else failure.wait
                await asyncio.sleep(min(wait, LONGEST_WAIT))
        raise AssertionError("no attempts")

    async def _get(self, url: str) -> bytes:
        import aiohttp

        try:
            return await self._redirected(url)
        except TimeoutError as error:
            raise Failure("timeout", "not whole within the time limit", passing=True) from error
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise Failure("bad url", _said(error)) from error
        except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError) as error:
            raise Failure("cut", _said(error), passing=True) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Failure("connection", _said(error), passing=True) from error

    async def _redirected(self, url: str) -> bytes:
        """Return the bytes behind a url, which may name another few times, though not one within this network."""
        target = url
        for _ in range(MOST + 1):
            async with self.session.get(target, allow_redirects=False) as answer:
                if answer.status not in _REDIRECTS or "Location" not in answer.headers:
                    return await _body(answer)
                target = urljoin(str(answer.url), answer.headers["Location"])
            problem = await asyncio.to_thread(redirect_problem, url, target)
            if problem:
                raise Failure("redirect", problem)
        raise Failure("redirect", f"more than {MOST} in a row")


def _said(error: Exception) -> str:
    """Return what an exception says, without addresses of memory, which differ from run to run."""
    return re.sub(r"<?([\w.]+) object at 0x[0-9a-fA-F]+>?", r"\1", str(error)).strip() or type(error).__name__


async def _body(answer: ClientResponse) -> bytes:
    if answer.status != 200:
        seconds = answer.headers.get("Retry-After", "")
        wait = float(seconds) if seconds.isascii() and seconds.isdigit() else None
        passing = answer.status in _PASSING
        raise Failure(f"http {answer.status}", answer.reason or "", passing=passing, wait=wait)
    if (answer.content_length or 0) > MAX_DOWNLOAD:
        raise Failure("too large", f"{answer.content_length} bytes announced")
    content = bytearray()
    async for piece in answer.content.iter_any():
        content += piece
        if len(content) > MAX_DOWNLOAD:
            raise Failure("too large", f"more than {MAX_DOWNLOAD} bytes")
    return bytes(content)


@asynccontextmanager
async def opened_web(*, workers: int, attempts: int, timeout: float, backoff: float) -> AsyncIterator[Web]:
    """Open connections; proxies are taken from the environment.

    Args:
        workers: requests at once over all hosts (at most PER_HOST to one).
        attempts: requests per url, where the failure may pass.
        timeout: seconds for one request from looking up the name to the last byte.
        backoff: seconds before the second try; doubles with every other one, unless the server says how long.
    """
    import aiohttp

    connector = aiohttp.TCPConnector(limit=workers, limit_per_host=PER_HOST, ttl_dns_cache=600)
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=timeout),
        trust_env=True,
        headers={"User-Agent": _AGENT, "Accept": "image/*,*/*;q=0.5"},
        cookie_jar=aiohttp.DummyCookieJar(),
    ) as session:
        yield Web(session, workers=workers, attempts=attempts, backoff=backoff)


def shrunk(content: bytes, *, min_side: int) -> Picture:
    """Return fetched bytes as RGB JPEG; metadata is left behind.

    Args:
        content: of any picture.
        min_side: most pixels of the shorter side; 0: all that there are.
    """
    from PIL import Image

    if not content:
        raise Failure("empty", "0 bytes")
    try:
        picture = decode_rgb(content, "picture")
    except BrokenPicture as error:
        raise Failure("no picture", f"{error}, begins {content[:16]!r}") from error
    except TooManyPixels as error:
        raise Failure("too large", str(error)) from error
    except DataError as error:
        raise Failure("no picture", str(error)) from error
    original = picture.size
    scale = min_side / min(original)
    if 0 < scale < 1:
        width, height = (max(min_side, round(side * scale)) for side in original)
        picture = picture.resize((width, height), Image.Resampling.LANCZOS)
    if max(picture.size) > LONGEST_JPEG:
        raise Failure("too large", f"{picture.width} x {picture.height} pixels; a JPEG's side has {LONGEST_JPEG}")
    stored = io.BytesIO()
    picture.save(stored, format="JPEG", quality=95)
    return Picture(stored.getvalue(), *picture.size, *original, hashlib.sha256(content).hexdigest())
