"""Runs and what else is scored, each with its folder, and the labels that tables give them.

A run's folder is ``<dataset>/<subset>/<features>/<model>@<recipe>/seed-<n>/<stage>``; its series
has all but the seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the workflow's messages need labels alone
    from recap.settings import Row, Table

# as `recap import-checkpoint` writes them
RELEASED_FILES = ("config.yaml", "model.safetensors", "vocabulary.json")
ANSWER = "scores.json"  # of the server, in the folder of a submission
VAL, TEST = "val2014", "test2014"  # the parts of COCO that its caption server scores
_NAMES = ("dataset", "subset", "features", "model", "recipe")


@dataclass(frozen=True, order=True)
class Run:
    """One training stage of one seed, or with `members` models of several seeds together."""

    dataset: str
    subset: str
    features: str
    model: str
    recipe: str
    seed: int
    stage: str
    members: tuple[int, ...] = ()

    @property
    def names(self) -> dict[str, str]:
        """Data set, subset, features, model and recipe."""
        return {name: getattr(self, name) for name in _NAMES}

    @property
    def wildcards(self) -> dict[str, str]:
        """The values of the wildcards in the patterns of its files."""
        if self.members:
            return self.names | {"seeds": "+".join(map(str, self.members))}
        return self.names | {"seed": str(self.seed)}

    @property
    def path(self) -> str:
        """The folder of this run below ``runs/`` and ``scores/``."""
        seeds = f"seed-{self.seed}"
        if self.members:
            seeds = f"ensemble-{'+'.join(map(str, self.members))}"
        return f"{row_setting(self.names)}/{seeds}/{self.stage}"

    def parts(self) -> list[Run]:
        """Return the trained runs behind this one: itself, or the members."""
        return [replace(self, seed=seed, members=()) for seed in self.members] or [self]


def row_runs(row: Row, seeds: list[int]) -> list[Run]:
    """Return the scored runs of a table row: one per seed, or the ensemble of all."""
    first = Run(row.dataset, row.subset, row.features, row.model, row.recipe, seeds[0], row.stage)
    return (
        [replace(first, members=tuple(seeds))]
        if row.ensemble
        else [replace(first, seed=seed) for seed in seeds]
    )


def file_name(table_id: str) -> str:
    """Return the stem of a table's or figure's files: ``mine_t3`` for ``mine/t3``."""
    return table_id.replace("/", "_")


@dataclass(frozen=True)
class ScoredFile:
    """A file of captions, or the folder of released weights, that a row of a table names."""

    table: str  #: id of the table
    dataset: str  #: whose test images it describes: that of the table's baseline
    #: the file, below the profile's inputs; None: the captions are made by released weights
    captions: str | None
    released: str | None  #: their folder, below the profile's inputs
    features: str  #: those of the baseline, which released weights read
    recipe: str  #: that of the baseline, by which released weights decode
    metrics: tuple[str, ...]  #: those of the baseline's evaluation
    path: str  #: folder of its scores below ``scores/``

    @property
    def files(self) -> list[str]:
        """What is read, below the profile's inputs."""
        return (
            [self.captions]
            if self.captions
            else [f"{self.released}/{name}" for name in RELEASED_FILES]
        )


def baseline(table: Table) -> Row:
    """Return the row that the others of a table are compared with."""
    return next(row for row in table.rows if row.id == table.baseline)


def outside_path(table: Table, name: str, row_id: str) -> str:
    """Return the folder below ``scores/`` of a row of the table whose files have a name."""
    return f"{baseline(table).dataset}/outside/{name}/{row_id}"


@dataclass(frozen=True)
class Submission:
    """The captions of one run, as COCO's caption server takes them."""

    table: str  #: id of the table that its scores are for
    algorithm: str  #: its name there, and of its files
    run: Run  #: the scored run; the pictures of val2014 are those of its data set
    test: Run  #: the run with data set and features of the test pictures: names their stores

    def shown(self, part: str) -> Run:
        """Return the run with the data set and features of a part of COCO."""
        return self.test if part == TEST else self.run


def results_name(part: str, algorithm: str) -> str:
    """Return the name that COCO's server wants of a file of captions."""
    return f"captions_{part}_{algorithm}_results.json"


def setting_names(setting: str) -> dict[str, str]:
    """Return dataset, subset, features, model and recipe of a setting's folder."""
    dataset, subset, features, last = setting.split("/")
    return dict(zip(_NAMES, (dataset, subset, features, *last.split("@", 1)), strict=True))


def series_of(folder: str | Path) -> str:
    """Return the series of a run's folder, which ends with ``<setting>/seed-<n>/<stage>``."""
    parts = Path(folder).parts
    return "/".join(parts[-6:-2] + parts[-1:])


def row_setting(row: Mapping[str, Any]) -> str:
    """Return the setting of a table's row or of a run: the folder of all its seeds and stages."""
    return "{dataset}/{subset}/{features}/{model}@{recipe}".format(**row)


def job_label(rule: str, wildcards: Mapping[str, str], labels: Mapping[str, str]) -> str:
    """Return what a job of the workflow is for: ``Small seed 2``, or the values of its wildcards.

    "" if it has none.
    """
    seed = wildcards.get("seed", "")
    seeds = f"seed{'s' if ',' in seed else ''} {seed}" if seed else ""
    if "model" not in wildcards:
        names = [value for name, value in wildcards.items() if name != "seed"]
        return " ".join(filter(None, [*names, seeds]))
    stage = wildcards.get("stage")
    series = f"{row_setting(wildcards)}/{stage or rule.removeprefix('train_')}"
    run = labels.get(series, series)  # a file that was asked for by name may be of no table
    together = f"ensemble {wildcards['seeds']}" if "seeds" in wildcards else seeds
    return " ".join(filter(None, [run, together, stage]))


def row_labels(
    tables: Mapping[str, Iterable[Mapping[str, Any]]], trained: Iterable[str] = ()
) -> dict[str, str]:
    """Return labels of the series of tables' rows (by file name) and of `trained` ones.

    A trained series that is no row follows the first row of its data and model.
    """
    # That of the first row that is scored for it, else (a first stage)
    # that has its data and model, else its model. Tables in the order
    # of their file names, for results do not record the profile's.
    by_series: dict[str, str] = {}
    by_model: dict[str, str] = {}  # a setting without its recipe -> label
    for name in sorted(tables):
        for row in tables[name]:
            by_series.setdefault(f"{row_setting(row)}/{row['stage']}", row["label"])
            by_model.setdefault(row_setting(row).rpartition("@")[0], row["label"])
    of_rows = len(by_series)
    for series in trained:
        model = series.rpartition("@")[0]
        by_series.setdefault(series, by_model.get(model, model.rpartition("/")[2]))
    model_places: dict[str, int] = {}  # place of a model's first series
    places: dict[str, int] = {}
    for place, series in enumerate(by_series):
        model_place = model_places.setdefault(series.rpartition("@")[0], place)
        places[series] = place if place < of_rows else model_place
    return {series: by_series[series] for series in sorted(by_series, key=places.__getitem__)}


def unique_labels(labels: Mapping[str, str], words: Mapping[str, str]) -> dict[str, str]:
    """Return unique labels of series: equal ones get settings that differ, in words."""
    stages: dict[str, set[str]] = {}  # setting -> its stages
    for series in labels:
        setting, _, stage = series.rpartition("/")
        stages.setdefault(setting, set()).add(stage)
    unique = {}
    for series, label in labels.items():
        setting = series.rpartition("/")[0]
        # Both stages of a setting have one label,
        # so it is told apart from those with which it shares a stage.
        alike = set()
        for each, its_label in labels.items():
            other = each.rpartition("/")
            if its_label == label and other[2] in stages[setting]:
                alike.add(other[0])
        parts = _differing(setting, alike)
        suffix = f" ({', '.join(words.get(part, part) for part in parts)})" if parts else ""
        unique[series] = label + suffix
    return unique


def _differing(setting: str, alike: Iterable[str]) -> list[str]:
    """Return the parts of a setting that differ from others': one, if it is enough, or all."""
    names = [setting_names(each) for each in alike]
    values = {key: {each[key] for each in names} for key in _NAMES}
    differing = [key for key in _NAMES if len(values[key]) > 1]
    enough = [key for key in differing if len(values[key]) == len(names)]
    return [setting_names(setting)[key] for key in enough[:1] or differing]


def labels(
    tables: Mapping[str, Iterable[Mapping[str, Any]]], trained: Iterable[str] = ()
) -> dict[str, str]:
    """Return a unique label for each series of tables' rows (by file name) or `trained`."""
    return unique_labels(row_labels(tables, trained), {})
