"""A page as PDF, printed by an installed browser, which knows its print style and the fonts of all scripts."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from recap.core.errors import DataError, MissingData
from recap.core.files import atomic_path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "microsoft-edge")
_SECONDS = 120


def print_page(page: Path, out: Path) -> None:
    """Write a page as PDF, all items one after the other."""
    if not page.is_file():
        raise MissingData(f"{page}: no such page; unpack pages.zip first")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise DataError(f"no browser of {', '.join(BROWSERS)} is on the PATH; open {page} in yours and print it")
    with atomic_path(out) as temporary, tempfile.TemporaryDirectory() as profile:
        words = [browser, "--headless", "--disable-gpu", "--no-pdf-header-footer", f"--user-data-dir={profile}"]
        if os.geteuid() == 0:
            words.append("--no-sandbox")  # without which Chromium refuses to run as root
        done = _run([*words, f"--print-to-pdf={temporary}", page.resolve().as_uri()], browser)
        if temporary.stat().st_size == 0:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise DataError(f"{browser} did not print {page} ({last}); open it in a browser and print it")


def _run(words: list[str], browser: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise DataError(f"{browser} did not print within {_SECONDS} seconds; open the page and print it") from error
