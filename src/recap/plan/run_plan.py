"""The runs that the rows of all requested tables need, planned before the first job.

Equal rows are trained once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

from recap.core.errors import ConfigError, UnknownName, nearest
from recap.core.process import uses_gpus
from recap.plan.figures import model_figures, planned_figure
from recap.plan.files import Files
from recap.plan.run import (
    Run,
    ScoredFile,
    Submission,
    baseline,
    file_name,
    labels,
    outside_path,
    row_labels,
    row_runs,
    series_of,
    unique_labels,
)
from recap.plan.scale_text import Scaled, sentence, sentences
from recap.plan.scaling import (
    NamedScale,
    PlannedRow,
    Scaler,
    Variant,
    check_row,
    check_test_pictures,
)
from recap.settings import (
    FigureFile,
    Profile,
    Recipe,
    Row,
    RowFile,
    Server,
    Table,
    TableFile,
    Titles,
)
from recap.settings.datasets import DatasetConfig, PicturesAlone, Subset
from recap.settings.features import FeaturesConfig
from recap.settings.models import LanguageModel, ModelConfig
from recap.settings.params import (
    base_files,
    flat,
    load_named,
    profile_tables,
    read_mapping,
    tables_named,
    validate,
)
from recap.settings.tables import Selection, selections_over


@contextmanager
def asked_for_by(who: str) -> Iterator[None]:
    """Add to an error which table, row, study or profile asks for what is refused."""
    try:
        yield
    except ConfigError as error:
        raise type(error)(f"{error} (asked for by {who})") from error


class RunPlan:
    """Everything a profile needs, loaded and checked before the first job.

    Of one row alone where `row` names it.
    """

    def __init__(self, profile: Profile, params: Path, row: str | None = None) -> None:
        self.profile = profile
        self.params = params
        self.row_id = row
        self.files = Files(profile)
        self.gpus = int(uses_gpus(profile.execution.device))  # of one process
        # section and part of a path -> config object
        self._settings: dict[tuple[str, str], Any] = {}
        # the same of models and recipes of rows
        self._variants: dict[tuple[str, str], Variant] = {}
        # rows that name the same variant share its config object
        self._of_variants: dict[str, Any] = {}
        self._feature_names: dict[str, tuple[str, ...]] = {}
        self._lowest_equal: dict[tuple[str, ...], str] = {}
        self._same_pictures: dict[str, str] = {}
        self._scaled: dict[str, Scaled] = {}
        who = f"profile {profile.name!r}"
        self.scale = NamedScale()
        if profile.scale:
            settings = self._load("scales", profile.scale, who)
            layers = base_files(params, "scales", profile.scale)
            files: dict[str, str] = {}
            for file, values in layers:
                files |= dict.fromkeys(flat(values), file)
            self.scale = NamedScale(profile.scale, settings, files)
        titles = params / "titles.yaml"  # optional
        self._titles: Titles = validate(
            Titles, read_mapping(titles) if titles.exists() else {}, str(titles)
        )
        # by id (``mine/t3``), at the profile's scale, their rows with parts of paths
        self.tables: dict[str, Table] = {}
        self.seeds: dict[str, list[int]] = {}  # of the rows of each table
        # the profile or a key of the scale; None: the table
        self.source_of_seeds: dict[str, str | None] = {}
        # table and row whose captions a server scores -> data set and features of its pictures
        self.test_pictures: dict[tuple[str, str], tuple[str, str]] = {}
        figures: dict[str, FigureFile] = {}
        for name in profile.figures:
            figure: FigureFile = self._load("figures", name, who)
            # A table with parts means all of them.
            figures[name] = figure.model_copy(
                update={"tables": tables_named(params, figure.tables)}
            )
        for table_id in profile_tables(params, profile):
            self._add(table_id, self._load("tables", table_id, who))
        self.figures = {name: planned_figure(self, name, file) for name, file in figures.items()}
        self.model_figures = model_figures(self)
        trained: set[Run] = set()
        for run in self.scored():
            for part in run.parts():
                trained.update(self.stages(part))
        self._trained = sorted(trained)
        self._shown = sorted({*self.scored(), *(each.test for each in self.submissions())})

    def get(self, section: str, name: str) -> Any:
        """Return the config object of a path's part or a named file, loaded once."""
        if (section, name) not in self._settings:
            self._settings[section, name] = load_named(self.params, section, name)
        return self._settings[section, name]

    def dataset(self, name: str) -> DatasetConfig:
        """Return the settings of a data set."""
        return self.get("datasets", name)

    def subset(self, name: str) -> Subset:
        """Return the settings of a subset."""
        return self.get("subsets", name)

    def features(self, name: str) -> FeaturesConfig:
        """Return the settings of features."""
        return self.get("features", name)

    def model(self, name: str) -> ModelConfig:
        """Return the settings of a model."""
        return self.get("models", name)

    def language_model(self, name: str) -> LanguageModel:
        """Return the settings of a language model."""
        return self.get("language_models", name)

    def recipe(self, name: str) -> Recipe:
        """Return a recipe by name."""
        return self.get("recipes", name)

    def variant(self, section: str, name: str) -> Variant:
        """Return a part of a path as file and changes."""
        return self._variants.get((section, name), Variant(section, name))

    def below(self, folder: Path, seeds: Mapping[str, list[int]]) -> RunPlan:
        """Return the plan with results below another folder, and with other seeds of its tables."""
        plan = copy(self)
        plan.files = Files(self.profile, f"{folder}/")
        plan.seeds = {**self.seeds, **seeds}
        return plan

    def _load(self, section: str, name: str, who: str) -> Any:
        with asked_for_by(who):
            return self.get(section, name)

    def _load_variant(self, variant: Variant) -> Any:
        key = repr(variant)
        if key not in self._of_variants:
            self._of_variants[key] = variant.load(self.params)
        return self._of_variants[key]

    def same_pictures(self, dataset: str) -> str:
        """Return the name of the lowest base of a data set that has the same pictures.

        Looked up once.
        """
        if dataset not in self._same_pictures:
            bases = [
                Path(source).stem for source, _ in base_files(self.params, "datasets", dataset)
            ]
            pictures = self.dataset(dataset).pictures()
            equal = (name for name in bases if self.dataset(name).pictures() == pictures)
            self._same_pictures[dataset] = next(equal)
        return self._same_pictures[dataset]

    def _add(self, table_id: str, file: TableFile) -> None:
        """Plan one table."""
        scaler = Scaler(self.params, table_id, file, self.scale)
        kept, quoted, not_run = scaler.rows()
        outside, also_quoted = scaler.outside_rows()
        with asked_for_by(f"table {table_id!r}"):
            if file.printed_on is not None:
                self.get("datasets", file.printed_on)
            server = self._server(file, scaler, [row.id for row in kept])
        rows, datasets = self._rows_of(table_id, file, scaler, kept)
        if server:
            self._add_test_pictures(table_id, scaler, kept, server)
        self.seeds[table_id], self.source_of_seeds[table_id] = scaler.seeds()
        if self.profile.seeds:
            self.seeds[table_id] = self.profile.seeds
            self.source_of_seeds[table_id] = f"profile {self.profile.name!r}"
        faithful = all(row.as_printed for row in rows)
        notes = [layer.note for _, layer in scaler.layers]
        scaled = self._scaled[table_id] = Scaled(file, notes, datasets, faithful)
        own_images = all(before == after for before, after in datasets)
        ids = {row.id for row in kept}
        self.tables[table_id] = Table(
            title=file.title,
            printed_on=file.printed_on,
            doubts=file.doubts,
            columns=file.columns,
            baseline=file.baseline,
            scale=self.scale_text([table_id]),
            short_scale=sentence([scaled], scale=self.scale.settings, titles=self._titles),
            image_ids=file.image_ids if own_images else [],
            image_captions=file.image_captions if own_images else [],
            quoted=[*quoted, *also_quoted],
            not_run=not_run,
            selections=self._selections(file, rows, table_id),
            outside=outside,
            server=server,
            rows=rows,
            examples=file.examples if file.examples and file.examples.row in ids else None,
        )
        if len({file_name(name) for name in self.tables}) != len(self.tables):
            raise ConfigError(
                f"table {table_id!r}: another table has files of the same names; rename one"
            )

    def _rows_of(
        self, table_id: str, file: TableFile, scaler: Scaler, kept: Sequence[RowFile]
    ) -> tuple[list[Row], list[tuple[str, str]]]:
        """Return the rows of a table, and the data set of each, in its file and at the scale."""
        as_is = Scaler(self.params, table_id, file, NamedScale())
        rows, datasets = [], []
        for row in kept:
            planned, as_file = scaler.row(row), as_is.row(row)
            with asked_for_by(f"row {row.id!r} of table {table_id!r}"):
                self._load_row(planned)
                datasets.append((as_file.dataset, planned.dataset))
                same = self._compared(as_file) == self._compared(planned)
                as_printed = planned.dataset == file.printed_on and same
                rows.append(self._row(row, planned, as_printed))
        return rows, datasets

    def _server(self, file: TableFile, scaler: Scaler, kept: Sequence[str]) -> Server | None:
        """Return what a server is sent of the rows kept; None where the scale has other data."""
        server = file.server
        if server is None:
            return None
        test = scaler.replaced("datasets", server.test)
        if test != server.test and not isinstance(self.get("datasets", test), PicturesAlone):
            return None
        not_sent = {row: why for row, why in server.not_sent.items() if row in kept}
        return server.model_copy(update={"not_sent": not_sent})

    def _add_test_pictures(
        self, table_id: str, scaler: Scaler, kept: Sequence[RowFile], server: Server
    ) -> None:
        """Plan and check the pictures of a table's rows that a server scores."""
        for row in kept:
            if row.id in server.not_sent:
                continue
            with asked_for_by(f"row {row.id!r} of table {table_id!r}"):
                dataset, features = scaler.test_pictures(row, server)
                self._load_parts(dataset, features)
                check_test_pictures(self.get, dataset, features)
            self.test_pictures[table_id, row.id] = dataset, "+".join(features)

    def scale_text(self, table_ids: Sequence[str]) -> str:
        """Return the scale of tables, with the notes and the source of the first."""
        tables = [self._scaled[table_id] for table_id in table_ids]
        return sentences(tables, scale=self.scale.settings, titles=self._titles)

    def _load_row(self, planned: PlannedRow) -> None:
        """Load and check everything that a row names.

        Its variants are parts of paths from now on.
        """
        self.get("subsets", planned.subset)
        self._load_parts(planned.dataset, planned.features)
        for variant in (planned.model, planned.recipe):
            key, loaded = (variant.section, variant.name), self._load_variant(variant)
            if self._settings.setdefault(key, loaded) != loaded:
                raise ConfigError(
                    f"{variant.section} {variant.name!r} has two meanings; rename one file"
                )
            self._variants[key] = variant
        check_row(planned, self.get)

    def _load_parts(self, dataset: str, features: tuple[str, ...]) -> None:
        self.get("datasets", dataset)
        for name in features:
            self.get("features", name)
        self._feature_names["+".join(features)] = features

    def _row(self, row: RowFile, planned: PlannedRow, as_printed: bool) -> Row:
        """Return a row with parts of paths.

        A cross-entropy row gets the lowest base recipe with equal keys.
        """
        recipe = planned.recipe.name
        own = (
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
        return Row(
            **{key: getattr(row, key) for key in own},
            dataset=planned.dataset,
            subset=planned.subset,
            features="+".join(planned.features),
            model=planned.model.name,
            recipe=self._shared(recipe, "xe", "processes", "evaluation")
            if planned.stage == "xe"
            else recipe,
            stage=planned.stage,
            as_printed=as_printed,
        )

    def _selections(self, file: TableFile, rows: Sequence[Row], table_id: str) -> list[Selection]:
        """Return the choices among the rows that are run."""
        by_id = {row.id: row for row in rows}
        selections = selections_over([each.model_dump() for each in file.selections], by_id)
        for each in selections:
            alike = {}
            for row in (by_id[name] for name in each["over"]):
                beam = getattr(self.recipe(row.recipe), row.stage).validation_beam
                alike[row.dataset, row.subset, row.stage, beam] = row.id
            if len(alike) > 1:
                one, other = list(alike.values())[:2]
                where = (
                    f"table {table_id!r}: selections: {each['id']!r}: rows {one!r} and {other!r}"
                )
                raise ConfigError(
                    f"{where} differ in data set, subset, stage or validation_beam; leave one out"
                )
        return [Selection(**each) for each in selections]

    def _compared(self, row: PlannedRow) -> tuple[Any, ...]:
        """Return the settings of a row."""
        return (
            row.dataset,
            self.get("subsets", row.subset),
            row.features,
            self._load_variant(row.model),
            self._load_variant(row.recipe),
            row.stage,
        )

    def feature_names(self, part: str) -> tuple[str, ...]:
        """Return the names of the features behind a part of a path."""
        return self._feature_names.get(part, (part,))

    def row(self, row_id: str) -> tuple[str, Row]:
        """Return the table's id and the row of ``mine/t3/wide``."""
        rows = {}
        for table_id, table in self.tables.items():
            for row in table.rows:
                rows[f"{table_id}/{row.id}"] = table_id, row
        if row_id not in rows:
            raise UnknownName(f"there is no row {row_id!r}; {nearest(row_id, rows)}")
        return rows[row_id]

    def table_runs(self, table_id: str) -> list[Run]:
        """Return the scored runs of a table, each once."""
        runs: set[Run] = set()
        for row in self.tables[table_id].rows:
            runs.update(row_runs(row, self.seeds[table_id]))
        return sorted(runs)

    def submissions(self, *table_ids: str) -> list[Submission]:
        """Return what COCO's server is sent of some or all tables; nothing of a lone row."""
        submissions = []
        for table_id in table_ids or self._whole_tables():
            for row in self.tables[table_id].rows:
                if (table_id, row.id) not in self.test_pictures:
                    continue
                dataset, features = self.test_pictures[table_id, row.id]
                runs = row_runs(row, self.seeds[table_id])
                name = f"{file_name(table_id)}_{row.id.replace('.', '_')}"
                for run in runs:
                    algorithm = name if len(runs) == 1 else f"{name}_seed{run.seed}"
                    test = replace(run, dataset=dataset, features=features)
                    submissions.append(Submission(algorithm, run, test))
        return submissions

    def scored_files(self, *table_ids: str) -> list[ScoredFile]:
        """Return caption files and released weights that rows of some or all tables name."""
        files = []
        for table_id in table_ids or self._whole_tables():
            table, like = self.tables[table_id], baseline(self.tables[table_id])
            metrics = tuple(self.recipe(like.recipe).evaluation.metrics)
            for row in table.outside:
                path = outside_path(table, file_name(table_id), row.id)
                parts = like.dataset, row.captions, row.released, like.features, like.recipe
                files.append(ScoredFile(table_id, *parts, metrics, path))
        return files

    def _whole_tables(self) -> list[str]:
        return list(self.tables) if self.row_id is None else []

    def scored(self) -> list[Run]:
        """Return the runs whose captions are scored, each once."""
        if self.row_id is not None:
            table_id, row = self.row(self.row_id)
            return row_runs(row, self.seeds[table_id])
        return sorted(set(chain.from_iterable(map(self.table_runs, self.tables))))

    def trained(self) -> list[Run]:
        """Return every training stage in use: scored runs and, for SCST, their first stages."""
        return list(self._trained)

    def shown(self) -> list[Run]:
        """Return the scored runs, and those on pictures that a server scores:
        their data sets and features are read."""
        return list(self._shown)

    def training_of(self, run: Run) -> Run:
        """Return the training whose weights a scored run of one seed uses.

        Recipes that only decode otherwise share.
        """
        if run.stage == "xe":
            return self.first_stage(run)
        return replace(
            run, recipe=self._shared(run.recipe, "xe", "scst", "processes", "evaluation.max_length")
        )

    def stages(self, run: Run) -> list[Run]:
        """Return the trainings that the weights of a scored run of one seed went through."""
        return list(dict.fromkeys([self.first_stage(run), self.training_of(run)]))

    def first_stage(self, run: Run) -> Run:
        """Return a run's cross-entropy training; recipes that differ in SCST alone share it."""
        return replace(run, recipe=self._shared(run.recipe, "xe", "processes"), stage="xe")

    def _shared(self, recipe: str, *keys: str) -> str:
        """Return the name of the lowest base of a recipe that equals it in ``keys`` (dotted).

        Looked up once.
        """
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
        return labels(self._rows(), [series_of(run.path) for run in self.trained()])

    def short_labels(self, runs: Sequence[Run]) -> dict[str, str]:
        """Return the label of the series of some runs in a figure
        of these alone, in the order of the tables' rows."""
        shown = {series_of(run.path) for run in runs}
        every = row_labels(self._rows(), sorted(shown))
        return unique_labels(
            {series: label for series, label in every.items() if series in shown},
            self._titles.short,
        )

    def _rows(self) -> dict[str, list[dict[str, Any]]]:
        rows = {}
        for name, table in self.tables.items():
            rows[file_name(name)] = [row.model_dump() for row in table.rows]
        return rows

    def names(self) -> set[tuple[str, str]]:
        """Return section and name of everything in tables and rows that becomes part of a path."""
        names = set(self._variants)
        for table_id, table in self.tables.items():
            names.add(("tables", file_name(table_id)))
            for row in table.rows:
                names |= {("datasets", row.dataset), ("subsets", row.subset)}
                names |= {("features", name) for name in self.feature_names(row.features)}
        return names

    def datasets(self) -> list[str]:
        """Return the names of the data sets in use."""
        return sorted({run.dataset for run in self.shown()})
