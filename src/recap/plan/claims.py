"""The claims of papers with the tables that decide them, as a profile makes these."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from recap.core.documents import read_mapping
from recap.core.errors import ConfigError, UnknownName, nearest
from recap.plan.run_plan import RunPlan
from recap.settings import Profile, Row
from recap.settings.claims import Claim, ClaimsFile
from recap.settings.params import label, load_named, load_profiles, papers, tables_named, validate
from recap.settings.specs import ComparedTable, JudgedClaims, PrintedTable

FILE = "claims.yaml"


def papers_with_claims(params: Path) -> list[str]:
    """Return the papers whose folders have claims."""
    return [paper for paper in papers(params) if (params / paper / FILE).is_file()]


def read_claims(params: Path, paper: str) -> list[Claim]:
    """Return the claims of a paper."""
    path = params / paper / FILE
    if not path.is_file():
        raise UnknownName(f"there are no claims of {paper!r}; {nearest(paper, papers_with_claims(params))}")
    file: ClaimsFile = validate(ClaimsFile, read_mapping(path), label(params, path))
    return file.claims


def tables_of(claims: Iterable[Claim]) -> list[str]:
    """Return the names of the tables that claims are about."""
    checks = [check for claim in claims for check in claim.checks]
    return list(dict.fromkeys(name for check in checks for name in (check.table, check.in_place) if name))


def planned_claims(plan: RunPlan) -> JudgedClaims | None:
    """Return the claims of the papers whose tables a plan makes; None where it makes none of them."""
    found = [read_claims(plan.params, paper) for paper in papers_with_claims(plan.params)]
    claims = [claim for each in found if set(tables_of(each)) & set(plan.tables) for claim in each]
    return _judged(plan, claims) if claims else None


def paper_claims(params: Path, paper: str, *, scale: str | None, results: Path) -> tuple[JudgedClaims, Path]:
    """Return the claims of a paper at one scale of its profile, and the folder of the scores.

    Args:
        params: folder of the parameter files.
        paper: its name.
        scale: name of a scale; None: the first of the profile that has scores, or else its first.
        results: folder with a folder for each profile.
    """
    claims = read_claims(params, paper)
    profiles = load_profiles(params / paper / "profile.yaml")
    chosen = [each for each in profiles if scale in (None, each.scale)]
    if not chosen:
        raise ConfigError(f"{paper} has no scale {scale!r}; {nearest(str(scale), [str(p.scale) for p in profiles])}")
    scored = [each for each in chosen if (results / each.name / "scores").is_dir()]
    profile = (scored or chosen)[0]
    made = _tables(params, profile)
    tables = [name for name in tables_of(claims) if name in made]
    scores = results / profile.name / "scores"
    if not tables:
        return JudgedClaims(scale=profile.scale or "", claims=claims, tables={}), scores
    plan = RunPlan(profile.model_copy(update={"tables": tables, "figures": [], "studies": []}), params)
    return _judged(plan, claims), scores


def _tables(params: Path, profile: Profile) -> set[str]:
    drawn = [name for figure in profile.figures for name in load_named(params, "figures", figure).tables]
    return set(tables_named(params, [*profile.tables, *drawn]))


def _judged(plan: RunPlan, claims: list[Claim]) -> JudgedClaims:
    names = [name for name in tables_of(claims) if name in plan.tables]
    tables = {name: ComparedTable(table=plan.tables[name], seeds=plan.seeds[name]) for name in names}
    replaced = {check.table for claim in claims for check in claim.checks if check.in_place}
    printed = {name: _printed(plan.params, name) for name in sorted(replaced)}
    return JudgedClaims(scale=plan.profile.scale or "", claims=claims, tables=tables, printed=printed)


def _printed(params: Path, name: str) -> PrintedTable:
    table = load_named(params, "tables", name)
    rows = {row.id: row.printed for row in (*table.rows, *table.quoted)}
    return PrintedTable(stage=table.defaults.stage or Row.model_fields["stage"].default, rows=rows)
