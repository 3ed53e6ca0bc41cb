"""From the name of a profile's tables to a plan: every file is read and checked, every row gets its
runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from recap.core.errors import ConfigError
from recap.plan.claims import claims_about
from recap.plan.figures import model_figures, sweeps
from recap.plan.files import Files
from recap.plan.named_settings import NamedSettings
from recap.plan.plan import Plan, ResolvedRow, asked_for_by
from recap.plan.row_checks import check_row, check_test_pictures
from recap.plan.run import ScoredFile, baseline, file_name, outside_path, row_runs
from recap.plan.scale_text import Scaled, sentence, sentences
from recap.plan.scaling import NamedScale, ScaledRow, Scaler
from recap.plan.studies import named_studies
from recap.settings import FigureFile, Profile, Row, RowFile, Server, Table, Titles
from recap.settings.datasets import PicturesAlone
from recap.settings.params import (
    base_files,
    flat,
    profile_tables,
    read_mapping,
    tables_named,
    validate,
)
from recap.settings.tables import Selection

# keys of a row that are the same at every scale
_AT_EVERY_SCALE = (
    "id",
    "label",
    "note",
    "ensemble",
    "printed",
    "printed_sd",
    "printed_p",
    "p_explained_by",
    "doubt",
)


@dataclass(frozen=True)
class ResolvedTable:
    """A table at the scale of a profile."""

    table: Table
    rows: list[ResolvedRow]
    seeds: list[int]
    source_of_seeds: str | None  #: the profile or a key of the scale; None: the table's file
    scaled: Scaled


def resolve(profile: Profile, params: Path, alone: str | None = None) -> Plan:
    """Return the plan of a profile, or of the one row (``mine/t3/wide``) that `alone` names."""
    settings = NamedSettings(params)
    with asked_for_by(f"profile {profile.name!r}"):
        scale = named_scale(settings, profile.scale)
        figures = _figure_files(settings, profile)
    titles_file = params / "titles.yaml"  # optional
    titles: Titles = validate(
        Titles, read_mapping(titles_file) if titles_file.exists() else {}, str(titles_file)
    )
    tables: dict[str, ResolvedTable] = {}
    rows: list[ResolvedRow] = []
    scored_files: list[ScoredFile] = []
    for table_id in profile_tables(params, profile):
        with asked_for_by(f"profile {profile.name!r}"):
            settings.get("tables", table_id)
        resolved = resolve_table(Scaler(settings, table_id, scale), profile, titles)
        tables[table_id] = resolved
        rows += resolved.rows
        if alone is None:
            scored_files += _scored_files(settings, table_id, resolved.table)
        if len({file_name(name) for name in tables}) != len(tables):
            raise ConfigError(
                f"table {table_id!r}: another table has files of the same names; rename one"
            )
    plan = Plan(
        profile=profile,
        settings=settings,
        files=Files(profile),
        scale=scale.settings,
        titles=titles,
        tables={name: each.table for name, each in tables.items()},
        rows=rows,
        seeds={name: each.seeds for name, each in tables.items()},
        source_of_seeds={name: each.source_of_seeds for name, each in tables.items()},
        scaled={name: each.scaled for name, each in tables.items()},
        scored_files=scored_files,
        alone=alone,
    )
    return replace(
        plan,
        figures=sweeps(plan, figures),
        model_figures=model_figures(plan),
        studies=named_studies(plan),
        claims=claims_about(settings, tables),
    )


def named_scale(settings: NamedSettings, name: str | None) -> NamedScale:
    """Return a scale with the file of each of its keys."""
    if name is None:
        return NamedScale()
    files: dict[str, str] = {}
    for file, values in base_files(settings.params, "scales", name):
        files |= dict.fromkeys(flat(values), file)
    return NamedScale(name, settings.get("scales", name), files)


def _figure_files(settings: NamedSettings, profile: Profile) -> dict[str, FigureFile]:
    """Return the figures of a profile; a table with parts means all of them."""
    figures: dict[str, FigureFile] = {}
    for name in profile.figures:
        file: FigureFile = settings.get("figures", name)
        tables = tables_named(settings.params, file.tables)
        figures[name] = file.model_copy(update={"tables": tables})
    return figures


def resolve_table(scaler: Scaler, profile: Profile, titles: Titles) -> ResolvedTable:
    """Return a table at a scale, with the runs of its rows."""
    file = scaler.table
    kept, quoted, not_run = scaler.rows()
    outside, also_quoted = scaler.outside_rows()
    with asked_for_by(f"table {scaler.table_id!r}"):
        if file.printed_on is not None:
            scaler.settings.dataset(file.printed_on)
        server = _server(scaler, kept)
    seeds, source_of_seeds = scaler.seeds()
    if profile.seeds:
        seeds = profile.seeds
        source_of_seeds = f"profile {profile.name!r}"
    as_is = Scaler(scaler.settings, scaler.table_id, NamedScale())
    rows: list[ResolvedRow] = []
    datasets: list[tuple[str, str]] = []
    for row in kept:
        with asked_for_by(f"row {row.id!r} of table {scaler.table_id!r}"):
            own = as_is.row(row)
            scaled = scaler.row(row)
            rows.append(_resolve_row(scaler, row, own, scaled, seeds, server))
            datasets.append((own.dataset, scaled.dataset))
    of_table = [each.row for each in rows]
    ids = {row.id for row in kept}
    own_images = all(before == after for before, after in datasets)
    said = Scaled(
        file,
        notes=[layer.note for _, layer in scaler.layers],
        datasets=datasets,
        as_printed=all(row.as_printed for row in of_table),
    )
    # What neither the scale nor the rows decide is as the file says.
    values = {name: getattr(file, name) for name in Table.model_fields if hasattr(file, name)}
    values |= {
        "scale": sentences([said], scale=scaler.scale.settings, titles=titles),
        "short_scale": sentence([said], scale=scaler.scale.settings, titles=titles),
        "image_ids": file.image_ids if own_images else [],
        "image_captions": file.image_captions if own_images else [],
        "quoted": [*quoted, *also_quoted],
        "not_run": not_run,
        "selections": list(_selections(scaler, of_table)),
        "outside": outside,
        "server": server,
        "rows": of_table,
        "examples": file.examples if file.examples and file.examples.row in ids else None,
    }
    table = Table(**values)
    return ResolvedTable(table, rows, seeds, source_of_seeds, said)


def _server(scaler: Scaler, kept: Sequence[RowFile]) -> Server | None:
    """Return what a server is sent of the rows kept; None where the scale has other data."""
    server = scaler.table.server
    if server is None:
        return None
    test = scaler.replaced("datasets", server.test)
    if test != server.test and not isinstance(scaler.settings.dataset(test), PicturesAlone):
        return None
    ids = [row.id for row in kept]
    not_sent = {row: why for row, why in server.not_sent.items() if row in ids}
    return server.model_copy(update={"not_sent": not_sent})


def _resolve_row(
    scaler: Scaler,
    row: RowFile,
    own: ScaledRow,
    scaled: ScaledRow,
    seeds: list[int],
    server: Server | None,
) -> ResolvedRow:
    """Return a row with its runs, after all that it names is read and checked."""
    settings = scaler.settings
    settings.subset(scaled.subset)
    _load_parts(settings, scaled.dataset, scaled.features)
    settings.add(scaled.model)
    settings.add(scaled.recipe)
    check_row(scaled, settings)
    recipe = scaled.recipe.name
    if scaled.stage == "xe":  # the second stage of its recipe does not count
        recipe = settings.shared_recipe(recipe, "xe", "processes", "evaluation")
    same_settings = _compared(settings, own) == _compared(settings, scaled)
    planned = Row(
        **{key: getattr(row, key) for key in _AT_EVERY_SCALE},
        dataset=scaled.dataset,
        subset=scaled.subset,
        features="+".join(scaled.features),
        model=scaled.model.name,
        recipe=recipe,
        stage=scaled.stage,
        as_printed=scaled.dataset == scaler.table.printed_on and same_settings,
    )
    test_pictures = None
    if server and row.id not in server.not_sent:
        dataset, features = scaler.test_pictures(row, server)
        _load_parts(settings, dataset, features)
        check_test_pictures(settings, dataset, features)
        test_pictures = dataset, "+".join(features)
    return ResolvedRow(scaler.table_id, planned, tuple(row_runs(planned, seeds)), test_pictures)


def _load_parts(settings: NamedSettings, dataset: str, features: Sequence[str]) -> None:
    settings.dataset(dataset)
    for name in features:
        settings.features(name)


def _compared(settings: NamedSettings, row: ScaledRow) -> tuple[object, ...]:
    """Return what must be equal for a row to be trained as its table's file says."""
    return (
        row.dataset,
        settings.subset(row.subset),
        row.features,
        settings.load(row.model),
        settings.load(row.recipe),
        row.stage,
    )


def _selections(scaler: Scaler, rows: Sequence[Row]) -> Iterator[Selection]:
    """Yield the choices among the rows that are run."""
    by_id = {row.id: row for row in rows}
    for each in scaler.table.selections:
        over = [name for name in each.over if name in by_id]
        if len(over) < 2:  # no choice
            continue
        alike: dict[tuple[object, ...], str] = {}
        for name in over:
            row = by_id[name]
            stage = getattr(scaler.settings.recipe(row.recipe), row.stage)
            alike[row.dataset, row.subset, row.stage, stage.validation_beam] = name
        if len(alike) > 1:
            one, other = list(alike.values())[:2]
            raise ConfigError(
                f"table {scaler.table_id!r}: selections: {each.id!r}: rows {one!r} and {other!r} "
                "differ in data set, subset, stage or validation_beam; leave one out"
            )
        yield each.model_copy(update={"over": over})


def _scored_files(settings: NamedSettings, table_id: str, table: Table) -> Iterator[ScoredFile]:
    """Yield caption files and released weights that rows of a table name."""
    like = baseline(table)
    metrics = tuple(settings.recipe(like.recipe).evaluation.metrics)
    for row in table.outside:
        yield ScoredFile(
            table=table_id,
            dataset=like.dataset,
            captions=row.captions,
            released=row.released,
            features=like.features,
            recipe=like.recipe,
            metrics=metrics,
            path=outside_path(table, file_name(table_id), row.id),
        )
