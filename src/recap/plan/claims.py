"""The claims of papers, with the tables that they are judged by."""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import chain
from pathlib import Path

from recap.core.documents import read_mapping
from recap.core.errors import ConfigError, UnknownName, nearest
from recap.plan.named_settings import NamedSettings
from recap.plan.plan import Plan, asked_for_by
from recap.settings import Row, TableFile
from recap.settings.params import label, papers, validate
from recap.settings.specs import ClaimsSpec, ComparedTable, PrintedTable
from recap.settings.tables import Check, Claim, ClaimsFile

CLAIMS_FILE = "claims.yaml"  # in the folder of a paper


def papers_with_claims(params: Path) -> list[str]:
    """Return the papers whose folders have claims."""
    return [paper for paper in papers(params) if (params / paper / CLAIMS_FILE).is_file()]


def read_claims(params: Path, paper: str) -> list[Claim]:
    """Return the claims of a paper."""
    path = params / paper / CLAIMS_FILE
    if not path.is_file():
        raise UnknownName(
            f"there are no claims of {paper!r}; {nearest(paper, papers_with_claims(params))}"
        )
    file: ClaimsFile = validate(ClaimsFile, read_mapping(path), label(params, path))
    return file.claims


def tables_of(claims: Iterable[Claim]) -> list[str]:
    """Return the names of the tables that claims are about."""
    names: list[str] = []
    for check in _checks(claims):
        names += check.tables
    return list(dict.fromkeys(names))


def _checks(claims: Iterable[Claim]) -> list[Check]:
    return list(chain.from_iterable(claim.checks for claim in claims))


def claims_about(settings: NamedSettings, tables: Container[str]) -> list[Claim]:
    """Return the claims of the papers of whose tables there are some."""
    claims: list[Claim] = []
    for paper in papers_with_claims(settings.params):
        of_paper = read_claims(settings.params, paper)
        if any(name in tables for name in tables_of(of_paper)):
            check_claims(settings, paper, of_paper)
            claims += of_paper
    return claims


def check_claims(settings: NamedSettings, paper: str, claims: Iterable[Claim]) -> None:
    """Refuse a claim about a row or a column that its table does not have at any scale."""
    file = label(settings.params, settings.params / paper / CLAIMS_FILE)
    for claim in claims:
        with asked_for_by(f"claim {claim.id} of {file}"):
            for check in claim.checks:
                for name in check.tables:
                    _check_names(check, name, settings.get("tables", name))


def _check_names(check: Check, name: str, table: TableFile) -> None:
    rows = [row.id for row in table.rows]
    uses = [("row", check.row, rows)]
    if name == check.table:  # a table in its place may lack some of these
        uses += [("row", row, rows) for row in check.rows]
    if check.quoted:
        uses.append(("quoted row", check.quoted, [row.id for row in table.quoted]))
    uses += [("column", metric, table.columns) for metric in check.metrics]
    for kind, used, known in uses:
        if used not in known:
            raise ConfigError(f"table {name} has no {kind} {used!r}; {nearest(used, known)}")


def claims_spec(plan: Plan) -> ClaimsSpec | None:
    """Return the claims about a plan's tables, with these; None where there are none."""
    claims = plan.claims
    if not claims:
        return None
    names = [name for name in tables_of(claims) if name in plan.tables]
    tables = {
        name: ComparedTable(table=plan.tables[name], seeds=plan.seeds[name]) for name in names
    }
    printed = {}
    for name in sorted({check.table for check in _checks(claims) if check.fallback_table}):
        table = plan.settings.get("tables", name)
        rows = {row.id: row.printed for row in (*table.rows, *table.quoted)}
        printed[name] = PrintedTable(
            stage=table.defaults.stage or Row.model_fields["stage"].default, rows=rows
        )
    return ClaimsSpec(scale=plan.profile.scale or "", claims=claims, tables=tables, printed=printed)
