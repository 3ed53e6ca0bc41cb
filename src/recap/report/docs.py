"""Pages of docs made from the statistics of profiles, so that no number in them is typed by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from recap.core.errors import DataError, counted
from recap.core.files import reading, write_text
from recap.core.log import log
from recap.plan.run_plan import RunPlan
from recap.report.page import judged_claims, shown_tables
from recap.report.progress import progress
from recap.tables.formats import markdown_table

PROSE = "prose"  # folder below that of the pages
EARLIER = (
    "Runs of earlier versions, whose result files were not kept. "
    "This section is written by hand; no command can make its numbers again."
)


def write_docs(name: str, plans: Sequence[RunPlan], into: Path) -> Path:
    """Write ``<name>.md``: for each scale its finished tables, verdicts on claims, and a paragraph of prose if any.

    The prose of a scale is ``prose/<profile>.md`` in the same folder. ``prose/<name>_earlier.md`` is the page's last
    section: runs of earlier versions whose files are gone.
    """
    scales = [plan.profile.scale for plan in plans if plan.profile.scale]
    words = ["--scale", *scales] if scales else []
    command = " ".join(["recap report docs", name, *words, "--into", into.as_posix()])
    made_by = f"Made by `{command}` from `results/` and `{PROSE}/`. A change by hand is lost."
    lines = [f"# Results of {name}", "", made_by, ""]
    for plan in plans:
        lines += _section(plan, into)
    if earlier := _by_hand(into / PROSE / f"{name}_earlier.md"):
        lines += ["## Earlier runs", "", EARLIER, "", earlier]
    page = into / f"{name}.md"
    write_text(page, "\n".join(lines).rstrip("\n") + "\n")
    log.info(f"{page}: {counted(len(plans), 'scale')}")
    return page


def _section(plan: RunPlan, into: Path) -> Iterator[str]:
    """Yield the lines of a scale: how far its runs are, its finished tables with their signatures, and its claims."""
    tables = shown_tables(plan)
    yield from (f"## Scale {plan.profile.scale}" if plan.profile.scale else "## Without a scale", "")
    if prose := _by_hand(into / PROSE / f"{plan.profile.name}.md", paragraph=True):
        yield from (prose, "")
    waiting = [table.paper.title for table in tables if not table.full]
    left_out = f" Left out until its runs are finished: {'; '.join(waiting)}." if waiting else ""
    yield from (f"{progress(plan).sentence}{left_out}", "")
    for table in tables:
        if table.full:
            yield markdown_table(replace(table.paper, signatures=table.full.signatures), level=3)
    for claims in judged_claims(plan):
        yield markdown_table(claims, level=3)


def _by_hand(path: Path, *, paragraph: bool = False) -> str:
    """Return a text that is kept by hand, or one paragraph on one line; nothing where there is no such file."""
    with reading(path, damaged="save it as UTF-8"):
        text = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    if paragraph and re.search(r"\n\s*\n|^#|^\|", text, re.MULTILINE):
        raise DataError(f"{path}: more than a paragraph; keep one, without headings and tables")
    return " ".join(text.split()) if paragraph else text
