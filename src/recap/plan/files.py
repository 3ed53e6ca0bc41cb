"""Where the files of a profile are: those that its jobs make, and the outside ones below `inputs`.

Each rule of the workflow has a pattern for each of its outputs, whose wildcards are in braces.
"""

from __future__ import annotations

from pathlib import Path

from recap.plan.run import TEST, VAL, results_name
from recap.settings import Profile
from recap.settings.studies import STUDY_FILES

SUBSETS = "subsets"  # folder of a data set's draws
FORMATS = ("tex", "csv", "html", "md")
PLOTS = ("csv", "png", "pdf", "svg")
RUN_FILES = ("config.yaml", "model.safetensors", "history.csv", "training.json")
SCORE_FILES = ("captions.test.json", "scores.test.parquet", "metrics.json")

_KINDS = ("results", "reports", "logs", "work")
_DATA = "{results}/data/{dataset}"
_STORE = "{results}/features/{dataset}/{features}"
_SERIES = "{dataset}/{subset}/{features}/{model}@{recipe}"
_PART = "{work}/parts/{dataset}/{features}/{part}.json"
_LANGUAGE_MODEL = "{results}/features/{dataset}/{language_model}.language_model"
_STUDY = "{reports}/studies/{study}"
_FIGURES = "{reports}/figures"


def _run(stage: str) -> dict[str, str]:
    folder = f"{{results}}/runs/{_SERIES}/seed-{{seed}}/{stage}"
    return {Path(name).stem: f"{folder}/{name}" for name in RUN_FILES}


def _scores(path: str) -> dict[str, str]:
    return {name.partition(".")[0]: f"{{results}}/scores/{path}/{name}" for name in SCORE_FILES}


def _table(begin: str, styles: tuple[str, ...] = ("",)) -> dict[str, str]:
    files = {}
    for style in styles:
        for ending in FORMATS:
            files[style.strip(".") + ending] = f"{begin}{style}.{ending}"
    return files


def _submission() -> dict[str, str]:
    folder = "{reports}/server/{algorithm}"
    files = {"zip": f"{folder}/{{algorithm}}.zip"}
    for part in (VAL, TEST):
        files[part] = f"{folder}/{results_name(part, '{algorithm}')}"
    return files


OUTPUTS: dict[str, dict[str, str]] = {
    "web_pictures": {"pictures": "{pictures}"},
    "wanted_rows": {"rows": "{results}/data/wanted_rows/{pictures}.txt"},
    "corpus": {"corpus": f"{_DATA}/corpus.parquet"},
    "vocabulary": {"vocabulary": f"{_DATA}/vocabulary.json"},
    "card": {"card": f"{_DATA}/card.md"},
    "subset": {"subset": f"{_DATA}/{SUBSETS}/{{subset}}/seed-{{seed}}.json"},
    "pretrain": {"backbone": f"{_STORE}.backbone.safetensors"},
    "used_images": {"used": f"{_STORE}.images.txt"},
    "extractor": {"note": f"{_STORE}.extractor.json"},
    "features": {"store": f"{_STORE}.h5"},
    "language_model": {
        "weights": f"{_LANGUAGE_MODEL}.safetensors",
        "report": f"{_LANGUAGE_MODEL}.json",
    },
    "train_xe": _run("xe"),
    "train_scst": _run("scst"),
    "evaluate": _scores(f"{_SERIES}/seed-{{seed}}/{{stage}}"),
    "evaluate_ensemble": _scores(f"{_SERIES}/ensemble-{{seeds}}/{{stage}}"),
    "score_file": _scores("{outside}"),  # of any folder below scores/, a run's, too
    "score_released": _scores("{outside}"),
    "server_captions": {"captions": "{results}/scores/{run}/captions.{part}.json"},
    "submission": _submission(),
    "select": {"selections": "{results}/statistics/selections/{table}.json"},
    "statistics": {"statistics": "{results}/statistics/{table}.json"},
    "table": _table("{reports}/tables/{table}", ("", ".paper")),
    "claims": _table("{reports}/tables/claims"),
    "samples": {name: f"{_FIGURES}/{{table}}_captions.{name}" for name in ("png", "md")},
    "sweep": {name: f"{_FIGURES}/{{figure}}.{name}" for name in PLOTS},
    "summary": {"summary": "{results}/summary.json"},
    "curves": {
        **{name: f"{_FIGURES}/curves.{name}" for name in PLOTS},
        "csv": "{results}/curves.csv",
    },
    "study_sheets": {Path(name).stem: f"{_STUDY}/{name}" for name in STUDY_FILES},
    "study_simulate": {"responses": f"{_STUDY}/simulated.json"},
    "study_import": {"responses": f"{_STUDY}/responses.json"},
    "study_analysis": {
        **_table(f"{_STUDY}/table"),
        "statistics": "{results}/statistics/studies/{study}.json",
    },
    "report_page": {"report": "{reports}/report.html"},
    "publish": {"published": "mlflow/{profile}.published.json"},
}


class _Wildcards(dict[str, str]):
    """Names that are not filled in stay as they are, in braces."""

    def __missing__(self, name: str) -> str:
        return f"{{{name}}}"


class Files:
    """The files of a profile, below a folder of results where one is named."""

    def __init__(self, profile: Profile, folder: str = "") -> None:
        self.inputs = profile.inputs
        self._folders = {kind: f"{folder}{kind}/{profile.name}" for kind in _KINDS}
        self._folders["profile"] = profile.name
        self.results, self.reports, self.logs, self.work = (self._folders[kind] for kind in _KINDS)
        self._outputs = dict(OUTPUTS)
        # A store in several parts is made by a job for each and one that merges them.
        if profile.execution.extraction_parts > 1:
            self._outputs["merge_features"] = OUTPUTS["features"]
            self._outputs["features"] = {"part": _PART}
        self._outputs["detector_features"] = self._outputs["features"]
        self._outputs["fetch"] = self._outputs["fetch_to_unpack"] = {"file": self.outside("{file}")}

    def of(self, rule: str, /, **wildcards: str) -> dict[str, str]:
        """Return a rule's outputs by name; wildcards that have no value stay in their braces."""
        values = _Wildcards(self._folders | wildcards)
        patterns = self._outputs.get(rule, {})
        return {name: pattern.format_map(values) for name, pattern in patterns.items()}

    def scores(self, path: str) -> dict[str, str]:
        """Return what an evaluation leaves in a folder below ``scores/``."""
        return self.of("score_file", outside=path)

    def store(self, dataset: str, features: str) -> str:
        """Return a feature store, which one job makes or several."""
        values = _Wildcards(self._folders | {"dataset": dataset, "features": features})
        return OUTPUTS["features"]["store"].format_map(values)

    def product(self, dataset: str, name: str) -> str:
        """Return a file that the reader of a data set writes beside its corpus."""
        return str(Path(self.of("corpus", dataset=dataset)["corpus"]).with_name(name))

    def outside(self, name: str) -> str:
        """Return the path of a file that the profile's `inputs` folder must hold."""
        return str(Path(self.inputs) / name)
