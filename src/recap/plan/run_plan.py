"""The runs that the rows of all requested tables need, planned before the first job; equal rows are trained once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from recap.core.errors import ConfigError, UnknownName, nearest
from recap.plan.figures import planned_figure
from recap.plan.labels import labels, series_of
from recap.plan.loaded import LoadedFiles
from recap.plan.model_figures import model_figures
from recap.plan.outside_rows import ScoredFile, scored_files
from recap.plan.row_checks import check_row
from recap.plan.run import Run, file_name, row_runs
from recap.plan.scale_text import Pair, sentence, short_sentence
from recap.plan.scaling import NamedScale, PlannedRow, Scaler
from recap.plan.submissions import Submission, check_test_pictures, submissions
from recap.settings import FigureFile, Profile, Row, RowFile, Server, Table, TableFile, Titles
from recap.settings.datasets import PicturesAlone
from recap.settings.params import base_files, names, read_mapping, tables_named, validate
from recap.settings.tables import Selection, selections_over


class RunPlan(LoadedFiles):
    """Everything a profile needs, loaded and checked before the first job.

    Attributes:
        profile: the requested tables, scale and seeds.
        tables: id (``mine/t3``) -> the table at the profile's scale, its rows with parts of paths.
        seeds: id of a table -> the seeds of its rows.
        row_id: the only row (``mine/t3/wide``) whose runs are planned; None: all rows.
        figures: id (``mine/f7``) -> the figure, with the numbers on its axis.
        model_figures: the figures that the tables list.
        test_pictures: id of a table and of a row whose captions a server scores -> data set and features of those.
    """

    def __init__(self, profile: Profile, params: Path, row: str | None = None) -> None:
        super().__init__(params)
        self.profile = profile
        self.row_id = row
        self._features: dict[str, tuple[str, ...]] = {}
        self._lowest_equal: dict[tuple[str, ...], str] = {}
        who = f"profile {profile.name!r}"
        self.scale: NamedScale | None = None
        if profile.scale:
            self.scale = NamedScale.of(params, profile.scale, self.asked_by("scales", profile.scale, who))
        titles = params / "titles.yaml"  # optional
        self._titles: Titles = validate(Titles, read_mapping(titles) if titles.exists() else {}, str(titles))
        self.tables: dict[str, Table] = {}
        self.seeds: dict[str, list[int]] = {}
        self.test_pictures: dict[tuple[str, str], tuple[str, str]] = {}
        # table -> its file, the scale's notes, its rows, and whether these have the settings of the printed numbers
        self._replaced: dict[str, tuple[TableFile, list[str], list[Pair], bool]] = {}
        files: dict[str, FigureFile] = {name: self.asked_by("figures", name, who) for name in profile.figures}
        # A table with parts means all of them.
        files = {k: file.model_copy(update={"tables": tables_named(params, file.tables)}) for k, file in files.items()}
        drawn = [table_id for file in files.values() for table_id in file.tables]
        for table_id in dict.fromkeys(tables_named(params, [*profile.tables, *drawn])):
            self._add(table_id, self.asked_by("tables", table_id, who))
        self.figures = {
            name: planned_figure(name, file, tables=self.tables, scale=self._scale_text(file.tables), spec_of=self.spec)
            for name, file in files.items()
        }
        self.model_figures = [
            figure
            for table_id, table in self.tables.items()
            for figure in model_figures(
                table_id,
                self._replaced[table_id][0].figures,
                table,
                partial(self._first, table_id),
                scale=profile.scale,
                known=names(params, "scales"),
            )
        ]

    def _first(self, table_id: str, row: Row) -> Run:
        """Return the training of the first seed of a table's row."""
        return self.weights(row_runs(row, self.seeds[table_id])[0])

    def _add(self, table_id: str, file: TableFile) -> None:
        """Plan one table."""
        before, after = (Scaler(self.params, table_id, file, side) for side in (None, self.scale))
        made, quoted, own = after.made_rows()
        outside, without = after.outside_rows()
        server = self._server(file, after, f"server.test of table {table_id!r}")
        if file.printed_on is not None:
            self.asked_by("datasets", file.printed_on, f"printed_on of table {table_id!r}")
        seeds = self.profile.seeds or after.seeds()
        rows, pairs = [], []
        for row in made:
            who = f"row {row.id!r} of table {table_id!r}"
            planned = after.row(row)
            self._load(planned, who)
            pairs.append(Pair(self._settings(before.row(row), who), self._settings(planned, who)))
            as_printed = planned.dataset == file.printed_on and pairs[-1].before == pairs[-1].after
            rows.append(self._row(row, planned, as_printed))
            if server and row.id not in server.not_sent:
                self.test_pictures[table_id, row.id] = self._test_pictures(*after.test_pictures(row, server), who)
        self.seeds[table_id] = seeds
        faithful = all(row.as_printed for row in rows)
        self._replaced[table_id] = file, [layer.note for _, layer in after.layers], pairs, faithful
        scale = self.scale.settings if self.scale else None
        ids = {row.id for row in made}
        own_images = all(pair.before["dataset"] == pair.after["dataset"] for pair in pairs)
        self.tables[table_id] = Table(
            title=file.title,
            scale=self._scale_text([table_id]),
            short_scale=short_sentence(scale=scale, titles=self._titles, pairs=pairs, as_printed=faithful),
            printed_on=file.printed_on,
            image_ids=file.image_ids if own_images else [],
            image_captions=file.image_captions if own_images else [],
            doubts=file.doubts,
            columns=file.columns,
            baseline=file.baseline,
            quoted=[*quoted, *without],
            not_run=own,
            selections=self._selections(file, rows, f"table {table_id!r}"),
            outside=outside,
            server=server
            and server.model_copy(
                update={"not_sent": {key: why for key, why in server.not_sent.items() if key in ids}}
            ),
            rows=rows,
            examples=file.examples if file.examples and file.examples.row in ids else None,
        )
        file_names = [file_name(name) for name in self.tables]
        if len(set(file_names)) != len(file_names):
            raise ConfigError(f"table {table_id!r}: another table has files of the same names; rename one")

    def _scale_text(self, table_ids: Sequence[str]) -> str:
        """Return the sentence about what was replaced in any row of the tables, with source and runs of the first."""
        found = [self._replaced[table_id] for table_id in table_ids]
        return sentence(
            table=found[0][0],
            scale=self.scale.settings if self.scale else None,
            notes=list(dict.fromkeys(note for _, notes, _, _ in found for note in notes)),
            titles=self._titles,
            pairs=[pair for _, _, pairs, _ in found for pair in pairs],
            seeds=len(self.seeds[table_ids[0]]),
            as_printed=all(faithful for *_, faithful in found),
        )

    def _load(self, planned: PlannedRow, who: str) -> None:
        """Load and check everything that a row names, and keep its variants."""
        names = [("datasets", planned.dataset), ("subsets", planned.subset)]
        for section, name in [*names, *(("features", name) for name in planned.features)]:
            self.asked_by(section, name, who)
        for variant in (planned.model, planned.recipe):
            self.add_variant(variant, who)
        check_row(planned, who, lambda section, name: self.asked_by(section, name, who))
        self._features["+".join(planned.features)] = planned.features

    def _server(self, file: TableFile, scaler: Scaler, who: str) -> Server | None:
        """Return what a server is sent of a table: nothing where the scale has other data than the server's."""
        replaced = file.server and scaler.test_data(file.server)
        if not file.server or replaced == file.server.test:
            return file.server
        return file.server if isinstance(self.asked_by("datasets", str(replaced), who), PicturesAlone) else None

    def _test_pictures(self, dataset: str, features: tuple[str, ...], who: str) -> tuple[str, str]:
        """Load and check what a server shows; return parts of paths."""
        for section, name in [("datasets", dataset), *(("features", name) for name in features)]:
            self.asked_by(section, name, who)
        check_test_pictures(self.get, dataset, features, who)
        self._features["+".join(features)] = features
        return dataset, "+".join(features)

    def _row(self, row: RowFile, planned: PlannedRow, as_printed: bool) -> Row:
        """Return a row with parts of paths; a cross-entropy row gets the lowest base recipe with equal keys."""
        recipe = planned.recipe.name
        if planned.stage == "xe":
            recipe = self._shared(recipe, "xe", "processes", "evaluation")
        return Row(
            id=row.id,
            label=row.label,
            dataset=planned.dataset,
            subset=planned.subset,
            features="+".join(planned.features),
            model=planned.model.name,
            recipe=recipe,
            stage=planned.stage,
            note=row.note,
            ensemble=row.ensemble,
            printed=row.printed,
            printed_sd=row.printed_sd,
            printed_p=row.printed_p,
            p_fits=row.p_fits,
            doubt=row.doubt,
            as_printed=as_printed,
        )

    def _selections(self, file: TableFile, rows: Sequence[Row], who: str) -> list[Selection]:
        """Return the choices among the rows that are run."""
        by_id = {row.id: row for row in rows}
        chosen = selections_over([each.model_dump() for each in file.selections], by_id)
        for each in chosen:
            alike = {}
            for name in each["over"]:
                row = by_id[name]
                beam = getattr(self.recipe(row.recipe), row.stage).validation_beam
                alike[row.dataset, row.subset, row.stage, beam] = name
            if len(alike) > 1:
                one, other = list(alike.values())[:2]
                raise ConfigError(
                    f"{who}: selections: {each['id']!r}: rows {one!r} and {other!r} differ in data set, subset, "
                    "stage or validation_beam, so that their validation scores cannot be compared"
                )
        return [Selection(**each) for each in chosen]

    def _settings(self, row: PlannedRow, who: str) -> dict[str, Any]:
        """Return the settings of a row, for the sentence about what was replaced."""
        model = self.variant_loaded(row.model, who)
        return {
            "dataset": (row.dataset,),
            "subset": self.asked_by("subsets", row.subset, who),
            "features": row.features,
            "model": (model.kind, model.model_dump(exclude={"kind"})),
            "recipe": self.variant_loaded(row.recipe, who),
            "stage": row.stage,
        }

    def source_of_seeds(self, table_id: str) -> str | None:
        """Return what gives a table its seeds: the profile or a key of the scale; None: the table."""
        if self.profile.seeds:
            return f"profile {self.profile.name!r}"
        layers = self.scale.settings.layers(table_id) if self.scale else []
        found = [where for where, layer in layers if layer.seeds is not None]
        return self.scale.source(found[-1], "seeds") if self.scale and found else None

    def feature_names(self, part: str) -> tuple[str, ...]:
        """Return the names of the features behind a part of a path."""
        return self._features.get(part, (part,))

    def row(self, row_id: str) -> tuple[str, Row]:
        """Return the table's id and the row of ``mine/t3/wide``."""
        known = {
            f"{table_id}/{row.id}": (table_id, row) for table_id, table in self.tables.items() for row in table.rows
        }
        if row_id not in known:
            raise UnknownName(f"there is no row {row_id!r}; {nearest(row_id, known)}")
        return known[row_id]

    def table_runs(self, table_id: str) -> list[Run]:
        """Return the scored runs of a table, each once."""
        return sorted({run for row in self.tables[table_id].rows for run in row_runs(row, self.seeds[table_id])})

    def submissions(self) -> list[Submission]:
        """Return what COCO's server is sent of all tables; nothing of a row that is trained alone."""
        if self.row_id is not None:
            return []
        return [each for table_id in self.tables for each in submissions(self, table_id)]

    def scored_files(self) -> list[ScoredFile]:
        """Return the files of captions that rows of all tables name; nothing where one row is trained alone."""
        if self.row_id is not None:
            return []
        return [each for table_id in self.tables for each in scored_files(self, table_id)]

    def scored(self) -> list[Run]:
        """Return the runs whose captions are scored, each once."""
        if self.row_id is not None:
            table_id, row = self.row(self.row_id)
            return row_runs(row, self.seeds[table_id])
        return sorted({run for table_id in self.tables for run in self.table_runs(table_id)})

    def trained(self) -> list[Run]:
        """Return every training stage in use: a scored run and, for SCST, the cross-entropy run it starts from."""
        return list(self._trained)

    @cached_property
    def _trained(self) -> list[Run]:
        scored = {part for run in self.scored() for part in run.parts()}
        return sorted({self.weights(run) for run in scored} | {self.first_stage(run) for run in scored})

    def weights(self, run: Run) -> Run:
        """Return the training whose weights a scored run of one seed uses; recipes that only decode otherwise share."""
        if run.stage == "xe":
            return self.first_stage(run)
        return replace(run, recipe=self._shared(run.recipe, "xe", "scst", "processes", "evaluation.max_length"))

    def stages(self, run: Run) -> list[Run]:
        """Return the trainings that the weights of a scored run of one seed went through."""
        return list(dict.fromkeys([self.first_stage(run), self.weights(run)]))

    def first_stage(self, run: Run) -> Run:
        """Return the cross-entropy training of a run, which recipes that differ only in the second stage share."""
        return replace(run, recipe=self._shared(run.recipe, "xe", "processes"), stage="xe")

    def _shared(self, recipe: str, *keys: str) -> str:
        """Return the name of the lowest base of a recipe that equals it in ``keys`` (dotted); looked up once."""
        if (recipe, *keys) not in self._lowest_equal:
            files = base_files(self.params, "recipes", self.variant("recipes", recipe).base)
            own, equal = self.recipe(recipe), recipe
            for base in (Path(source).stem for source, _ in reversed(files)):
                if any(attrgetter(key)(self.recipe(base)) != attrgetter(key)(own) for key in keys):
                    break
                equal = base
            self._lowest_equal[recipe, *keys] = equal
        return self._lowest_equal[recipe, *keys]

    def labels(self) -> dict[str, str]:
        """Return the label of every series of runs, in the order of the tables' rows."""
        rows = {file_name(name): [row.model_dump() for row in table.rows] for name, table in self.tables.items()}
        return labels(rows, [series_of(run.path) for run in self.trained()])

    def names(self) -> set[tuple[str, str]]:
        """Return section and name of everything in tables and rows that becomes part of a path."""
        rows = [row for table in self.tables.values() for row in table.rows]
        features = {("features", name) for row in rows for name in self.feature_names(row.features)}
        parts = {("datasets", row.dataset) for row in rows} | {("subsets", row.subset) for row in rows} | features
        return parts | set(self._variants) | {("tables", file_name(name)) for name in self.tables}

    def datasets(self) -> list[str]:
        """Return the names of the data sets in use."""
        return sorted({run.dataset for run in self.shown()})

    def shown(self) -> list[Run]:
        """Return the scored runs, and those on pictures that a server scores: their data sets and features are read."""
        return list(self._shown)

    @cached_property
    def _shown(self) -> list[Run]:
        return sorted({*self.scored(), *(each.test for each in self.submissions())})
