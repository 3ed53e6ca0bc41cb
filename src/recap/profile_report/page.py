"""The report as one HTML file that needs no other and no network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from recap.profile_report.progress import Progress
from recap.reporting.html import notes_below, table_element

Kind = Literal["tables", "contents", "figures", "samples", "origins", "cost"]


@dataclass(frozen=True)
class Part:
    """A part of a section: where links lead, its title, and what the template shows of it."""

    id: str
    title: str
    value: Any


@dataclass(frozen=True)
class Section:
    """A section of the page; its kind decides what the values of its parts are.

    The values: `ShownTable` of tables, `Content` of contents, `ShownFigure` of figures, `SampledTable` of samples, a
    list of `Origin` of origins, `Progress` of cost.
    """

    id: str
    title: str
    kind: Kind
    parts: Sequence[Part]


def section(title: str, kind: Kind, parts: Sequence[tuple[str, Any]]) -> list[Section]:
    """Return a section of parts with their titles, of which equal ones get a number; none where there is no part."""
    name, found = title.lower().replace(" ", "-"), list[Part]()
    for number, (each_title, value) in enumerate(parts, 1):
        alike = sum(each == each_title for each, _ in parts[:number])
        found.append(Part(f"{name}-{number}", each_title if alike == 1 else f"{each_title} ({alike})", value))
    return [Section(name, title, kind, found)] if found else []


def html_page(*, title: str, progress: Progress, sections: Sequence[Section]) -> str:
    """Return the page. Every text in it is escaped: labels, captions and notes come from files.

    Args:
        title: heading of the page.
        progress: how far the profile is.
        sections: in their order.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("recap.profile_report", "page"), autoescape=True, undefined=StrictUndefined
    )
    environment.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]
    environment.filters["duration"] = duration
    folder = files("recap.profile_report") / "page"
    return environment.get_template("report.html").render(
        title=title,
        progress=progress,
        sections=sections,
        style=Markup((folder / "report.css").read_text(encoding="utf-8")),
        script=Markup((folder / "report.js").read_text(encoding="utf-8")),
        sort_key=sort_key,
        table_element=lambda content: Markup(table_element(content)),
        notes_below=notes_below,
    )


def duration(hours: float) -> str:
    """Return a number of hours in the unit that suits it."""
    if hours and hours < 1:
        return f"{60 * hours:.1f} min"
    return f"{hours:.1f} h" if hours < 100 else f"{hours:,.0f} h"


def sort_key(text: str) -> str:
    """Return the number that a cell is sorted by, or nothing where it has none."""
    try:
        return repr(float(text.replace(",", "")))
    except ValueError:
        return ""
