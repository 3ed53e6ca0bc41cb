"""Scores of runs, COCO's server and a table's rows, from files that `SHA256SUMS` verifies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, FiniteFloat

from recap.core.checksums import check
from recap.core.documents import read_json
from recap.core.errors import DamagedFile, MetricError, RecapError
from recap.core.files import reading
from recap.core.hashing import parse_signature, sha256_file
from recap.plan.run import ANSWER, TEST, Run, outside_path, results_name, row_runs
from recap.settings import OutsideRow, Row, Table
from recap.settings.base import Strict
from recap.settings.metrics import server_names
from recap.settings.recipes import DecodingSettings, OutsideCaptions
from recap.settings.tables import RUN_COLUMNS
from recap.statistics.comparison import Sample

Seed = int | str
FILE = "file"  # a file of captions counts as one run, which has this in place of a seed
ALONE = "the COCO server alone has the references"
NO_IMAGES = "the COCO server gives no scores per image, so no test is possible"


@dataclass(frozen=True)
class _Captioned:
    image_id: int
    caption: str


def _with_one_group(decoding: Any) -> Any:
    """Leave out the keys of diverse groups, which records of earlier searches have."""
    # Published runs were all searched with one group; another number stays, and is refused.
    if not isinstance(decoding, dict) or not isinstance(decoding.get("rules"), dict):
        return decoding
    rules = dict(decoding["rules"])
    if rules.get("groups") == 1:
        del rules["groups"]
        rules.pop("diversity", None)
    return {**decoding, "rules": rules}


@dataclass(frozen=True)
class Metrics:
    """``metrics.json`` of a run: corpus scores, signature, and why a metric has none."""

    scores: dict[str, FiniteFloat | None]
    signature: str
    split: str
    decoding: Annotated[DecodingSettings | OutsideCaptions, BeforeValidator(_with_one_group)]
    not_run: dict[str, str] = field(default_factory=dict)


class Answer(Strict):
    """The server's answer; ``captions_sha256`` is of the captions of test2014 it was sent."""

    date: date
    captions_sha256: str
    scores: dict[str, float]

    @property
    def source(self) -> str:
        """Who gave the scores, and when."""
        return f"COCO server, {self.date.isoformat()}"


def read_metrics(folder: Path) -> Metrics:
    """Return ``metrics.json`` of a run."""
    path = folder / "metrics.json"
    check(path)
    return read_json(path, Metrics)


def read_number(path: Path, key: str) -> float:
    """Return a number from a JSON file of a training."""
    check(path)
    value = read_json(path, dict[str, Any]).get(key)
    if not isinstance(value, int | float):
        raise DamagedFile(f"{path}: has no number {key!r}; delete it and train this run again")
    return value


def read_captions(folder: Path, split: str) -> dict[int, str]:
    """Return the captions of a run: image id -> caption."""
    path = folder / f"captions.{split}.json"
    check(path)
    return {item.image_id: item.caption for item in read_json(path, list[_Captioned])}


def read_image_scores(folder: Path, split: str) -> dict[str, np.ndarray]:
    """Return the scores per image of a run, sorted by image id: column -> ``[images]``."""
    import pyarrow.parquet as pq

    path = folder / f"scores.{split}.parquet"
    check(path)
    with reading(
        path,
        RecapError,
        missing="evaluate this run again",
        damaged="delete it and evaluate this run again",
    ):
        table = pq.read_table(path, page_checksum_verification=True).sort_by("image_id")
        return {name: table[name].to_numpy() for name in table.column_names}


def sent_captions(folder: Path) -> Path:
    """Return the captions of test2014 in a submission's folder, which has its name."""
    return folder / results_name(TEST, folder.name)


def read_answer(folder: Path) -> Answer | str:
    """Return what the server answered to a submission,
    or why there are no scores of the captions as they are."""
    path = folder / ANSWER
    if not path.exists():
        return (
            f"{ALONE}; send it {folder}/{folder.name}.zip and bring its answer in with `recap "
            "scores import`"
        )
    check(path)
    answer: Answer = read_json(path, Answer)
    if sha256_file(sent_captions(folder)) != answer.captions_sha256:
        return (
            f"the {answer.source}, scored other captions than those of now; send it "
            f"{folder}/{folder.name}.zip"
        )
    return answer


def check_comparable(
    first: str, first_signature: str, second: str, second_signature: str, *, same_images: bool
) -> None:
    """Refuse scores of two names that cannot be compared, by their signatures or images."""
    one = parse_signature(first_signature)
    two = parse_signature(second_signature)
    reasons = []
    for key in ("tok", "refs", "images", "split"):
        if one.get(key) != two.get(key):
            reasons.append(f"{key} is {one.get(key)!r} in one and {two.get(key)!r} in the other")
    if not same_images:
        reasons.append("their images differ")
    if reasons:
        raise MetricError(
            f"{first!r} and {second!r} cannot be compared: {reasons[0]}; evaluate both the same way"
        )


@dataclass
class RowScores:
    """The scores of the runs of one row; all seeds agree in what is compared."""

    row: Row | OutsideRow
    signature: str = ""  # of the first seed
    signatures: dict[Seed, str] = field(default_factory=dict)
    # column -> seed -> corpus score or number
    values: dict[str, dict[Seed, float]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)  # column -> why a run lacks it
    # who gave the scores that are not this program's
    sources: list[str] = field(default_factory=list)
    # metric -> scores [images] of each run
    images: dict[str, list[np.ndarray]] = field(default_factory=dict)
    image_ids: list[int] = field(default_factory=list)  # sorted

    def sample(self, metric: str) -> Sample:
        """Return the scores of a metric, those of images in the order of ``image_ids``."""
        return Sample(
            np.mean(self.images[metric], axis=0).tolist(), list(self.values[metric].values())
        )

    def add(self, column: str, seed: Seed, value: float | str) -> None:
        """Add the value of one run, or the reason why there is none."""
        if isinstance(value, str):
            self.reasons[column] = value
        else:
            self.values.setdefault(column, {})[seed] = value

    def add_metrics(self, columns: Sequence[str], seed: Seed, folder: Path) -> None:
        """Add the metrics of one run from its files."""
        metrics = read_metrics(folder)
        images = read_image_scores(folder, metrics.split)
        ids = images["image_id"].tolist()
        self.signatures[seed] = metrics.signature
        self.signature = self.signature or metrics.signature
        self.image_ids = self.image_ids or ids
        check_comparable(
            f"{self.row.id} (first seed)",
            self.signature,
            f"{self.row.id} (seed {seed})",
            metrics.signature,
            same_images=ids == self.image_ids,
        )
        for column in columns:
            if column in RUN_COLUMNS or column in server_names():
                continue
            value = metrics.scores.get(column)
            if value is None:
                self.add(column, seed, metrics.not_run.get(column, "not in metrics.json"))
            elif column in images:
                self.add(column, seed, value)
                self.images.setdefault(column, []).append(images[column])
            else:
                why = (
                    f"metrics.json has {column} but the scores per image do not; evaluate this run "
                    "again"
                )
                raise MetricError(f"{folder}: {why}")


def collect(
    table: Table,
    seeds: Sequence[int],
    scores_root: Path,
    trainings: Mapping[str, Sequence[Path]],
    server: Mapping[str, Path],
    *,
    outside: str | None = None,
) -> list[RowScores]:
    """Read the scores of every row, and refuse rows that cannot be compared."""
    # By path of a scored run: its trainings in their order, and the folder of what COCO's server is
    # sent of it. `outside` is the table's name in the paths of scored files of captions, whose rows
    # come last; None: without these.
    rows = [_row_scores(row, table, seeds, scores_root, trainings, server) for row in table.rows]
    if outside:
        for row in table.outside:
            folder = scores_root / outside_path(table, outside, row.id)
            rows.append(_outside_scores(row, table.columns, folder))
    first = rows[0]
    for other in rows[1:]:
        check_comparable(
            first.row.id,
            first.signature,
            other.row.id,
            other.signature,
            same_images=other.image_ids == first.image_ids,
        )
    return rows


def _row_scores(
    row: Row,
    table: Table,
    seeds: Sequence[int],
    scores_root: Path,
    trainings: Mapping[str, Sequence[Path]],
    server: Mapping[str, Path],
) -> RowScores:
    """Read the scores of a row that is trained here."""
    scores = RowScores(row)
    not_sent = table.server.not_sent.get(row.id) if table.server else None
    for run in row_runs(row, list(seeds)):
        scores.add_metrics(table.columns, run.seed, scores_root / run.path)
        answer = read_answer(server[run.path]) if run.path in server else not_sent or ALONE
        if isinstance(answer, Answer) and answer.source not in scores.sources:
            scores.sources.append(answer.source)
        for column in table.columns:
            if column in RUN_COLUMNS:
                scores.add(column, run.seed, _number(column, run, trainings))
            elif column in server_names():
                given = answer.scores[column] if isinstance(answer, Answer) else answer
                scores.add(column, run.seed, given)
    return scores


def _outside_scores(row: OutsideRow, columns: Sequence[str], folder: Path) -> RowScores:
    """Read the scores of a row from outside."""
    scores = RowScores(row)
    scores.add_metrics(columns, FILE, folder)
    for column in columns:
        if column in RUN_COLUMNS or column in server_names():
            scores.reasons[column] = (
                "rows from outside have no training here, and are not sent to a server"
            )
    return scores


def _number(column: str, run: Run, trainings: Mapping[str, Sequence[Path]]) -> float | str:
    """Return what the trainings of one run recorded, of all its stages or of the last."""
    if run.members:
        return "an ensemble has several trainings"
    info = RUN_COLUMNS[column]
    stages = trainings[run.path] if info.all_stages else trainings[run.path][-1:]
    return sum(read_number(stage / info.file, info.key) for stage in stages)
