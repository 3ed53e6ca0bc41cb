"""Makes the report of a profile from what is there, while trainings run, too."""

from __future__ import annotations

from pathlib import Path

from recap.core.checksums import check, record
from recap.core.documents import read_json
from recap.core.files import write_text
from recap.core.log import log
from recap.plan.jobs import planned_studies
from recap.plan.paths import Paths
from recap.plan.run_plan import RunPlan
from recap.profile_report.claims import judged_claims
from recap.profile_report.origins import origins
from recap.profile_report.page import html_page, section
from recap.profile_report.pdf import PdfReport, write_pdf
from recap.profile_report.pictures import figures, sampled_tables
from recap.profile_report.progress import progress
from recap.profile_report.tables import shown_tables
from recap.reporting.content import Content
from recap.studies.sheets import read_sheets
from recap.studies.tables import study_content

_READINGS = "readings"  # end of the name of a table of one model as printed, as released and as recommended


def make_report(plan: RunPlan) -> Path:
    """Write ``report.html`` into the folder of a profile's reports, and ``report.pdf`` where LaTeX is installed.

    Args:
        plan: of the profile.

    Returns:
        The page.
    """
    done, tables = progress(plan), shown_tables(plan)
    readings = [table for table in tables if table.name.endswith(_READINGS)]
    others = [table for table in tables if table not in readings]
    claims, studies, drawn = judged_claims(plan), _studies(plan), figures(plan)
    made_from = origins(plan, done.records, tables)
    title, folder = f"Report of {plan.profile.name}", Path(Paths(plan).reports)
    sections = [
        *section("Claims", "contents", [(content.title, content) for content in claims]),
        *section("Tables", "tables", [(table.paper.title, table) for table in others]),
        *section("Readings", "tables", [(table.paper.title, table) for table in readings]),
        *section("Human studies", "contents", [(content.title, content) for content in studies]),
        *section("Figures", "figures", [(figure.title, figure) for figure in drawn]),
        *section("Samples", "samples", [(each.title, each) for each in sampled_tables(plan)]),
        *section("Cost so far", "cost", [("Cost so far", done)]),
        *section("Provenance", "origins", [("Provenance", made_from)]),
    ]
    page = folder / "report.html"
    write_text(page, html_page(title=title, progress=done, sections=sections))
    log.info(f"{page}: {done.sentence}")
    drawn_sheets = ((table.paper.title, folder / "figures" / f"{table.name}_captions.png") for table in tables)
    sheets = [(name, sheet) for name, sheet in drawn_sheets if sheet.is_file()]
    pictures = [figure for figure in drawn if figure.address]
    pdf = PdfReport(title, done.sentence, claims, tables, studies, pictures, sheets, made_from)
    made = [file] if write_pdf(pdf, file := page.with_suffix(".pdf")) else []
    record(page, *made)  # Snakemake's records leave out the PDF, which only some machines make
    return page


def _studies(plan: RunPlan) -> list[Content]:
    """Return the tables of the human studies that are evaluated."""
    paths, found = Paths(plan), []
    for name in planned_studies(plan):
        statistics = Path(paths.results) / "statistics" / "studies" / f"{name}.json"
        if statistics.is_file():
            check(statistics)
            sheets = read_sheets(Path(paths.reports) / "studies" / name / "sheets.json")
            found.append(study_content(sheets, read_json(statistics)))
    return found
