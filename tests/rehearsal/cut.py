"""The short form of a rehearsal: of all rows,
those without which a rule or a kind of work would not run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from recap.plan.claims import CLAIMS_FILE, papers_with_claims, read_claims
from recap.plan.plan import Plan
from recap.settings import Row
from recap.settings.metrics import server_names
from recap.settings.params import file_and_part, files, load_named, read_mapping
from recap.settings.tables import Check
from rehearsal.small import write_yaml

_POINTS = 2  # of the line of a figure


def cut_rows(plan: Plan) -> dict[str, Any]:
    """Cut rows out of the tables of a plan's copied parameter files,
    and return the keys of the profile for the rest.

    So few rows stay that there still is each data set, kind of features, kind of model, stage and
    kind of figure, an ensemble, a choice on validation, a claim, and the rows of one study and of
    one figure over a setting.
    """
    study = min(
        plan.profile.studies, key=lambda name: len(_rows_of_study(plan, name)), default=None
    )
    # A line over the rows of one table needs fewer rows than one over several tables.
    lines = {
        name: load_named(plan.params, "figures", name).line_of for name in plan.profile.figures
    }
    figure = min(lines, key=lambda name: lines[name] == "row", default=None)
    needed = _rows_of_study(plan, study) if study else set()
    if figure:
        needed |= _cut_figure(plan, figure)
    kept = _chosen(plan, needed)
    _cut_claims(plan.params, _cut_tables(plan.params, kept))
    return {
        "tables": list(kept),
        "figures": [figure] if figure else [],
        "studies": [study] if study else [],
    }


def _chosen(plan: Plan, needed: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the rows that stay by table: the needed,
    then the one that is first in most things, and costs least."""
    rows = {
        (table_id, row.id): row for table_id, table in plan.tables.items() for row in table.rows
    }
    claims = [
        claim
        for paper in papers_with_claims(plan.params)
        for claim in read_claims(plan.params, paper)
    ]
    # Scores of the server decide the others.
    checks = [
        check
        for claim in claims
        for check in claim.checks
        if not set(check.metrics) <= set(server_names())
    ]
    work = {key: set(_kinds_of_work(plan, key[0], row, checks)) for key, row in rows.items()}
    trained = {
        key: {
            stage
            for run in plan.row("/".join(key)).runs
            for part in run.parts()
            for stage in plan.stages(part)
        }
        for key, row in rows.items()
    }
    kept: dict[tuple[str, str], None] = {}

    def keep(key: tuple[str, str]) -> None:
        kept.update(dict.fromkeys([(key[0], plan.tables[key[0]].baseline), key]))

    def gain(key: tuple[str, str]) -> tuple[int, int]:
        both = trained[key] | trained[key[0], plan.tables[key[0]].baseline]
        return len(work[key].difference(*(work[each] for each in kept))), -len(
            both.difference(*(trained[each] for each in kept))
        )

    for key in needed:
        keep(key)
    while gain(best := max(rows, key=gain))[0]:
        keep(best)
    return {
        table: [row for each, row in rows if each == table and (each, row) in kept]
        for table, _ in kept
    }


def _rows_of_study(plan: Plan, name: str) -> set[tuple[str, str]]:
    study = plan.studies[name.replace("/", "_")]
    rows = (row for setup in study.setups for row in setup.rows.values())
    return {(table, row) for table, _, row in (row.rpartition("/") for row in rows)}


def _kinds_of_work(
    plan: Plan, table_id: str, row: Row, checks: Sequence[Check]
) -> Iterator[object]:
    """Yield what a row may be the first to need."""
    yield "dataset", row.dataset
    yield "model", plan.settings.get("models", row.model).kind
    yield "ensemble", row.ensemble
    yield "stage", row.stage
    for name in row.features.split("+"):
        settings = plan.settings.get("features", name)
        yield "features", settings.kind, getattr(settings, "format", None)
    for figure in plan.model_figures:
        if figure.begin.startswith(table_id.replace("/", "_")) and row.label == figure.labels[0]:
            yield "figure", figure.settings.kind
    stay = {row.id, plan.tables[table_id].baseline}
    if any(len(stay.intersection(choice.over)) > 1 for choice in plan.tables[table_id].selections):
        yield "selection"
    if any(check.table == table_id and {check.row, *check.rows} <= stay for check in checks):
        yield "claim"


def _cut_figure(plan: Plan, name: str) -> set[tuple[str, str]]:
    """Leave one line of two points of a figure over a setting, and return table and row of each."""
    (path,) = files(plan.params, "figures", name)
    values, figure = read_mapping(path), load_named(plan.params, "figures", name)
    first, *_ = figure.labels
    if figure.line_of == "row":
        tables = [
            table for table in plan.tables if file_and_part(plan.params, table)[0] in figure.tables
        ][:_POINTS]
        points = {(table, first) for table in tables}
    else:
        tables, values["rows"] = [first], figure.rows[:_POINTS]
        points = {(first, row) for row in values["rows"]}
    write_yaml(path, {**values, "tables": tables, "labels": {first: figure.labels[first]}})
    return points


def _cut_tables(params: Path, kept: dict[str, list[str]]) -> dict[str, set[str]]:
    """Write the tables' files with the rows that stay,
    and return the dropped rows by file, of all its parts."""
    dropped = {}
    by_file: defaultdict[str, set[str]] = defaultdict(set)
    for table_id, rows in kept.items():
        by_file[file_and_part(params, table_id)[0]] |= set(rows)
    for name, rows_kept in by_file.items():
        (path,) = files(params, "tables", name)
        values = read_mapping(path)
        dropped[name] = {row["id"] for row in values["rows"]} - rows_kept
        values["rows"] = [row for row in values["rows"] if row["id"] in rows_kept]
        for part in (values, *values.get("parts", {}).values()):
            _cut_mentions(part, rows_kept)
        write_yaml(path, values)
    return dropped


def _cut_mentions(values: dict[str, Any], rows_kept: set[str]) -> None:
    """Leave what a table, or what one part of it, says of the rows that stay."""
    values.pop("outside", None)  # captions of the real images
    if "figures" in values:
        values["figures"] = list(_figures(values["figures"], rows_kept))
    if "selections" in values:
        chosen = (
            {**each, "over": [row for row in each["over"] if row in rows_kept]}
            for each in values["selections"]
        )
        values["selections"] = [each for each in chosen if len(each["over"]) > 1]
    if "examples" in values and values["examples"]["row"] not in rows_kept:
        del values["examples"]
    if not_sent := values.get("server", {}).get("not_sent"):
        values["server"]["not_sent"] = {
            key: text for key, text in not_sent.items() if key in rows_kept
        }


def _cut_claims(params: Path, dropped: Mapping[str, set[str]]) -> None:
    """Leave out checks of claims that name dropped rows,
    which are given by file, and claims without a check left."""

    def stays(check: Check) -> bool:
        files_read = [
            file_and_part(params, name)[0] for name in (check.table, check.fallback_table) if name
        ]
        return not any({check.row, *check.rows} & dropped.get(file, set()) for file in files_read)

    for paper in papers_with_claims(params):
        claims = [
            claim.model_copy(update={"checks": [check for check in claim.checks if stays(check)]})
            for claim in read_claims(params, paper)
        ]
        claims = [
            claim
            for claim in claims
            if claim.checks or claim.fixed_verdict or claim.reason_unjudged
        ]
        path = params / paper / CLAIMS_FILE
        if claims:
            write_yaml(
                path,
                {
                    "claims": [
                        claim.model_dump(mode="json", exclude_defaults=True) for claim in claims
                    ]
                },
            )
        else:
            path.unlink()


def _figures(figures: list[dict[str, Any]], rows_kept: set[str]) -> Iterator[dict[str, Any]]:
    """Yield the figures that show a row that stays, with these rows."""
    for figure in figures:
        rows = [row for row in figure.get("rows", []) if row in rows_kept]
        if rows or not figure.get("rows"):
            yield {**figure, **({"rows": rows} if rows else {})}
