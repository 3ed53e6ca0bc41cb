"""Forms: a web page per rater, which needs no other file, the same on paper, and the batch of a crowd platform.

Every text from a data set, a model or a parameter file is escaped, and the page's policy (CSP) lets no script run but
its own. Systems, setups and right answers are not in the page.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from recap.core.errors import DataError, MissingData
from recap.core.files import atomic_path, csv_text
from recap.settings import Study
from recap.studies.sheets import Sheet, Sheets

if TYPE_CHECKING:
    from jinja2 import Environment

AGREED = "I have read this and take part."
EQUAL = "Some of these captions are the same. If you prefer one of those, choose any of them."
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome", "microsoft-edge")
_SECONDS = {"preference": 20, "questions": 15}  # per item, for the estimate of the minutes
_PRINT_SECONDS = 120
_AS_REFERENCE = "=+-@$'\t\r"  # begin a formula in a spreadsheet, or a column of the crowd platform
Source = Callable[[str], str]  # file of pictures.zip -> what `src` of its <img> is


@cache
def asset(name: str) -> str:
    """Return a file of the folder ``form``."""
    return (files("recap.studies") / "form" / name).read_text(encoding="utf-8")


@cache
def _templates(escaped: Callable[[str], str]) -> Environment:
    """Return the templates of the folder ``form``; each value in them is escaped, except style and script."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("recap.studies", "form"),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) else Markup(escaped(str(value))),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= {"AGREED": AGREED, "EQUAL": EQUAL, "column": lambda name: Markup(f"${{{name}}}")}
    environment.globals |= {name: Markup(asset(f"page.{name}")) for name in ("css", "js")}
    return environment


def consent_paragraphs(study: Study, *, items: int, form: str) -> list[str]:
    """Return the paragraphs of the consent text of a form with ``items`` items; ``form`` is its id.

    The text is a template, which whoever runs a study completes and answers for.
    """
    minutes = max(1, -(-items * _SECONDS[study.kind] // 60))
    text = asset("consent.txt").format(items=items, minutes=minutes, sheet=form, contact=study.contact)
    return [part for part in text.split("\n\n") if part.strip()]


def policy() -> str:
    """Return the content security policy of a page: its own script and style, and pictures."""
    script, style = (
        base64.b64encode(hashlib.sha256(asset(name).encode()).digest()).decode() for name in ("page.js", "page.css")
    )
    return (
        f"default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; img-src data: 'self' file:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'"
    )


def inside(pictures: dict[str, bytes]) -> Source:
    """Return a source of pictures that are part of the page."""
    return cache(lambda name: f"data:image/jpeg;base64,{base64.b64encode(pictures[name]).decode()}")


def page(sheets: Sheets, sheet: Sheet, source: Source, *, online: bool = False) -> str:
    """Return the page of one rater, whose answers are sent to the server it came from (online) or saved as a file."""
    consent = consent_paragraphs(sheets.study, items=len(sheet.items), form=sheet.id)
    template = _templates(escape).get_template("page.html")
    return template.render(sheets=sheets, sheet=sheet, source=source, online=online, consent=consent, policy=policy())


def _cell(text: str) -> str:
    """Return text as HTML that neither a spreadsheet nor the crowd platform takes for anything else."""
    return "".join(f"&#{ord(char)};" if char in _AS_REFERENCE else escape(char) for char in text)


def batch_csv(sheets: Sheets) -> str:
    """Return the batch of a crowd platform, a line per form: ``sheet``, then per item its images and captions.

    The platform (Mechanical Turk, whose form others read, too) puts the cells into `template_html` as they are, so they
    are HTML already. Shorter sheets leave the last cells empty.
    """
    longest = max((sheet.numbered for sheet in sheets.sheets), key=len)
    rows = [["sheet"]]
    for number, item in longest.items():
        rows[0] += [f"images_{number}", *(f"caption_{number}_{place + 1}" for place in range(len(item.captions)))]
    for sheet in sheets.sheets:
        cells = [sheet.id]
        for number, item in sheet.numbered.items():
            # The pictures of an item at their public addresses.
            urls = [sheets.study.picture_url.replace("{file}", name) for name in item.pictures]
            images = "".join(f'<img src="{escape(url)}" alt="Image of item {number}">' for url in urls)
            cells += [images, *map(_cell, item.captions)]
        rows.append(cells + [""] * (len(rows[0]) - len(cells)))
    return csv_text(rows)


def template_html(sheets: Sheets) -> str:
    """Return the template whose ``${columns}`` the batch fills; an answer has the name ``<item>.<question>``."""
    items = max((sheet.numbered for sheet in sheets.sheets), key=len)
    consent = consent_paragraphs(sheets.study, items=len(items), form="see the top")
    # An item that shorter sheets lack is hidden there (page.css), so it cannot be required.
    required = min(len(sheet.items) for sheet in sheets.sheets)
    template = _templates(_cell).get_template("crowd.html")
    return template.render(sheets=sheets, items=items, consent=consent, required_items=required)


def print_page(page: Path, out: Path) -> None:
    """Write a page as PDF, all items one after the other, by a browser: it knows the style and fonts of all scripts."""
    if not page.is_file():
        raise MissingData(f"{page}: no such page; unpack pages.zip first")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise DataError(f"no browser of {', '.join(BROWSERS)} is on the PATH; open {page} in yours and print it")
    with atomic_path(out) as temporary, tempfile.TemporaryDirectory() as profile:
        words = [browser, "--headless", "--disable-gpu", "--no-pdf-header-footer", f"--user-data-dir={profile}"]
        words += ["--no-sandbox"] * (os.geteuid() == 0)  # without which Chromium refuses to run as root
        words += [f"--print-to-pdf={temporary}", page.resolve().as_uri()]
        try:
            done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=_PRINT_SECONDS)
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        except subprocess.TimeoutExpired:
            reason = f"not within {_PRINT_SECONDS} seconds"
        if temporary.stat().st_size == 0:
            raise DataError(f"{browser} did not print {page} ({reason}); open it in a browser and print it")
