"""Forms: a web page per rater, which needs no other file
and prints on paper, and the batch of a crowd platform.

Every text from a data set, a model or a parameter file is escaped, and the page's policy (CSP) lets
no script run but its own. Systems, setups and right answers are not in the page.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from functools import cache, partial
from importlib.resources import files
from typing import Any

from recap.core.files import csv_text
from recap.settings import Study
from recap.studies.sheets import Sheet, Sheets
from recap.tables.contact_sheet import data_address
from recap.tables.formats import filled

AGREED = "I have read this and take part."
EQUAL = "Some of these captions are the same. If you prefer one of those, choose any of them."
_SECONDS = {"preference": 20, "questions": 15}  # per item, for the estimate of the minutes
Source = Callable[[str], str]  # file of pictures.zip -> what `src` of its <img> is


@cache
def asset(name: str) -> str:
    """Return a file of the folder ``templates``."""
    return (files("recap.studies") / "templates" / name).read_text(encoding="utf-8")


def _filled(name: str, **shown: Any) -> str:
    """Return a template of the folder, in which each value is escaped."""
    return filled(name, "recap.studies", **shown, AGREED=AGREED, EQUAL=EQUAL)


def _consent(study: Study, *, items: int, form: str) -> list[str]:
    """Return the paragraphs of the consent text, a template that the study's owner completes."""
    minutes = max(1, -(-items * _SECONDS[study.kind] // 60))
    text = asset("consent.txt").format(
        items=items, minutes=minutes, sheet=form, contact=study.contact
    )
    return text.split("\n\n")


def policy() -> str:
    """Return the content security policy of a page: its own script and style, and pictures."""
    return (
        f"default-src 'none'; script-src 'sha256-{_digest('page.js')}'; style-src "
        f"'sha256-{_digest('page.css')}'; img-src data: 'self' file:; base-uri 'none'; form-action "
        "'none'"
    )


def _digest(name: str) -> str:
    return base64.b64encode(hashlib.sha256(asset(name).encode()).digest()).decode()


def data_uris(pictures: dict[str, bytes]) -> Source:
    """Return a source of pictures that are part of the page."""
    return cache(lambda name: data_address(pictures[name], "image/jpeg"))


def page(sheets: Sheets, sheet: Sheet, source: Source) -> str:
    """Return the page of one rater, who saves the answers as a file."""
    return _filled(
        "page.html",
        sheets=sheets,
        sheet=sheet,
        source=source,
        consent=_consent(sheets.study, items=len(sheet.items), form=sheet.id),
        policy=policy(),
        required="",
    )


def crowd_files(sheets: Sheets) -> tuple[str, str]:
    """Return batch and template of a crowd platform:
    a line per form with its items as HTML, which fill ``${columns}``.

    An answer has the name ``<item>.<question>`` (Mechanical Turk, whose form others read, too).
    Shorter sheets leave the last cells empty.
    """
    longest = max(len(sheet.items) for sheet in sheets.sheets)
    columns = ["sheet", *(f"item_{number}" for number in range(1, longest + 1))]
    rows = [columns]
    for sheet in sheets.sheets:
        row = [sheet.id]
        for number, item in sheet.numbered.items():
            html = _filled(
                "item.html",
                sheets=sheets,
                sheet=sheet,
                source=partial(sheets.study.picture_url.replace, "{file}"),
                number=number,
                item=item,
                required=" required",
            )
            # One line, in which nothing is a column of the platform.
            row.append(" ".join(html.split()).replace("$", "&#36;"))
        rows.append(row + [""] * (len(columns) - len(row)))
    consent = _consent(sheets.study, items=longest, form="see the top")
    filled = [f"${{{column}}}" for column in columns]
    return csv_text(rows), _filled("crowd.html", sheets=sheets, columns=filled, consent=consent)
