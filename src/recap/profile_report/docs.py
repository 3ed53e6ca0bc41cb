"""Pages of docs made from the statistics of profiles, so that no number in them is typed by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from recap.core.errors import DataError, counted
from recap.core.files import write_text
from recap.core.log import log
from recap.plan.run_plan import RunPlan
from recap.profile_report.claims import judged_claims
from recap.profile_report.progress import Progress, progress
from recap.profile_report.tables import ShownTable, shown_tables
from recap.reporting.markdown import markdown_table
from recap.reporting.paper_formats import paper_markdown

PROSE = "prose"  # folder below that of the pages
EARLIER = (
    "Runs of earlier versions, whose result files were not kept. "
    "This section is written by hand; no command can make its numbers again."
)


def write_docs(name: str, plans: Sequence[RunPlan], into: Path) -> Path:
    """Write ``<name>.md``: for each scale its finished tables, verdicts on claims, and a paragraph of prose if any.

    The prose of a scale is ``prose/<profile>.md`` in the same folder. ``prose/<name>_earlier.md`` is the page's last
    section: runs of earlier versions whose files are gone.

    Args:
        name: of the paper or profile.
        plans: of the profile at each scale, in the order of their sections.
        into: folder of the page.

    Returns:
        The page.
    """
    command = " ".join(["recap report docs", name, *_scale_words(plans), "--into", into.as_posix()])
    lines = [
        f"# Results of {name}",
        "",
        f"Made by `{command}` from `results/` and `{PROSE}/`. A change by hand is lost.",
        "",
    ]
    for plan in plans:
        lines += _section(plan, into)
    if earlier := _kept(into / PROSE / f"{name}_earlier.md"):
        lines += ["## Earlier runs", "", EARLIER, "", earlier]
    page = into / f"{name}.md"
    write_text(page, "\n".join(lines).rstrip("\n") + "\n")
    log.info(f"{page}: {counted(len(plans), 'scale')}")
    return page


def _scale_words(plans: Sequence[RunPlan]) -> list[str]:
    named = [plan.profile.scale for plan in plans if plan.profile.scale]
    return ["--scale", *named] if named else []


def _section(plan: RunPlan, into: Path) -> Iterator[str]:
    tables, done = shown_tables(plan), progress(plan)
    yield from (f"## {_title(plan)}", "")
    if prose := _prose(into / PROSE / f"{plan.profile.name}.md"):
        yield from (prose, "")
    yield from (_state(done, tables), "")
    for table in tables:
        if table.content:
            signatures = "".join(f"- Signature: `{text}`\n" for text in table.content.signatures)
            yield _below(paper_markdown(table.paper)) + signatures
    for content in judged_claims(plan):
        yield _below(markdown_table(content))


def _title(plan: RunPlan) -> str:
    return f"Scale {plan.profile.scale}" if plan.profile.scale else "Without a scale"


def _state(done: Progress, tables: Sequence[ShownTable]) -> str:
    """Return how far the runs are, and which tables are left out until theirs are finished."""
    waiting = [table.paper.title for table in tables if not table.content]
    left_out = f" Left out until its runs are finished: {'; '.join(waiting)}." if waiting else ""
    state = done.sentence.partition(" What is missing")[0]
    return f"{state}{left_out}"


def _prose(path: Path) -> str:
    """Return the paragraph of a scale, on one line; nothing where there is no such file."""
    text = _kept(path)
    if re.search(r"\n\s*\n|^#|^\|", text, re.MULTILINE):
        raise DataError(f"{path}: more than a paragraph; keep one, without headings and tables")
    return " ".join(text.split())


def _kept(path: Path) -> str:
    """Return a text that is kept by hand; nothing where there is no such file."""
    try:
        return path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8; save it as UTF-8") from error


def _below(markdown: str) -> str:
    """Return the Markdown of a table with its heading two levels lower."""
    return f"##{markdown}" if markdown.startswith("# ") else markdown
