"""The claims of papers, with the tables that they are judged by."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from recap.core.documents import read_mapping
from recap.core.errors import ConfigError, UnknownName, nearest
from recap.plan.plan import Plan, asked_for_by
from recap.plan.resolve import resolve
from recap.settings import Row, TableFile
from recap.settings.params import label, load_named, load_profiles, papers, profile_tables, validate
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


def planned_claims(plan: Plan) -> ClaimsSpec | None:
    """Return the claims of the papers whose tables a plan makes.

    None where it makes none of them.
    """
    claims: list[Claim] = []
    for paper in papers_with_claims(plan.params):
        of_paper = read_claims(plan.params, paper)
        if set(tables_of(of_paper)) & set(plan.tables):
            check_claims(plan.params, paper, of_paper)
            claims += of_paper
    return _claims_spec(plan, claims) if claims else None


def check_claims(params: Path, paper: str, claims: Iterable[Claim]) -> None:
    """Refuse a claim about a row or a column that its table does not have at any scale."""
    file = label(params, params / paper / CLAIMS_FILE)
    tables: dict[str, TableFile] = {}
    for claim in claims:
        with asked_for_by(f"claim {claim.id} of {file}"):
            for check in claim.checks:
                for name in check.tables:
                    tables[name] = tables.get(name) or load_named(params, "tables", name)
                    _check_names(check, name, tables[name])


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


def paper_claims(
    params: Path, paper: str, *, scale: str | None, results: Path
) -> tuple[ClaimsSpec, Path]:
    """Return claims of a paper at a scale (default: first with scores), and its scores' folder."""
    claims = read_claims(params, paper)
    check_claims(params, paper, claims)
    every = load_profiles(params / paper / "profile.yaml")
    at_scale = [each for each in every if scale in (None, each.scale)]
    if not at_scale:
        raise ConfigError(
            f"{paper} has no scale {scale!r}; {nearest(str(scale), [str(p.scale) for p in every])}"
        )
    profile = next(
        (each for each in at_scale if (results / each.name / "scores").is_dir()), at_scale[0]
    )
    scores = results / profile.name / "scores"
    planned = profile_tables(params, profile)
    tables = [name for name in tables_of(claims) if name in planned]
    if not tables:
        return ClaimsSpec(scale=profile.scale or "", claims=claims, tables={}), scores
    alone = profile.model_copy(update={"tables": tables, "figures": [], "studies": []})
    return _claims_spec(resolve(alone, params), claims), scores


def _claims_spec(plan: Plan, claims: list[Claim]) -> ClaimsSpec:
    names = [name for name in tables_of(claims) if name in plan.tables]
    tables = {
        name: ComparedTable(table=plan.tables[name], seeds=plan.seeds[name]) for name in names
    }
    printed = {}
    for name in sorted({check.table for check in _checks(claims) if check.fallback_table}):
        table = load_named(plan.params, "tables", name)
        rows = {row.id: row.printed for row in (*table.rows, *table.quoted)}
        printed[name] = PrintedTable(
            stage=table.defaults.stage or Row.model_fields["stage"].default, rows=rows
        )
    return ClaimsSpec(scale=plan.profile.scale or "", claims=claims, tables=tables, printed=printed)
