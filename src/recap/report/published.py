"""Published runs: a small file for each scored run, kept in git, from which the files of its results are made again.

The first line of a file is its :class:`Header`; each further line is an image with its caption and its scores. The
references of a split are one file for all of its runs, because scoring again needs them.
"""

from __future__ import annotations

import gzip
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from recap.core.checksums import check, record
from recap.core.documents import parse_json, read_json, write_json
from recap.core.errors import DataError, MetricError, counted
from recap.core.files import atomic_path, reading, write_text
from recap.core.hashing import parse_signature
from recap.core.log import log
from recap.data.corpus import Corpus
from recap.plan.jobs import selection_spec, trainings
from recap.plan.paths import Paths
from recap.plan.run import Run, ScoredFile, file_name
from recap.plan.run_plan import RunPlan
from recap.settings.params import validate
from recap.settings.specs import SelectedRows
from recap.statistics.compare import compare_table, write_selections
from recap.statistics.scores import Metrics, read_captions, read_image_scores, read_metrics

PUBLISHED = "published"  # folder below that of the pages
ENDING = ".jsonl.gz"
_AGAIN = "restore it from git, or publish its run again"
_TEXTS = ("config.yaml", "history.csv")


@dataclass(frozen=True)
class Training:
    """One training behind a scored run, with its files as they are."""

    path: str  #: folder below ``runs/``
    training: dict[str, Any]  #: ``training.json``: wall seconds, threads, versions, digests
    texts: dict[str, str]  #: ``config.yaml`` and ``history.csv``

    @property
    def cpu_seconds(self) -> float:
        """Seconds times threads: what the training held of the processor."""
        return float(self.training["seconds"]) * int(self.training.get("threads", 1))


@dataclass(frozen=True)
class Header:
    """All that tables, statistics, claims and curves need of a run beside its images."""

    metrics: dict[str, Any]  #: ``metrics.json``: corpus scores, signature, decoding
    seed: int | None  #: of one training; ensembles and captions of others have none
    references: str  #: file of the references, beside the folders of profiles
    trainings: list[Training]
    versions: dict[str, str]  #: of recap and pycocoevalcap, which scored, and of torch, which trained
    #: Training -> CPU seconds. They follow from its record, and stand here for readers of the file.
    cpu_seconds: dict[str, float]
    #: Training -> the day it ended, by the time of its record; and the Python that published. They do not make a run
    #: another one: a copy of its files is published with its first dates.
    finished: dict[str, str]
    python: str


@dataclass(frozen=True)
class Image:
    """One image of a run."""

    id: int
    caption: str
    scores: dict[str, float]


@dataclass(frozen=True)
class References:
    """The reference captions of one image, as the scorer gets them."""

    id: int
    file: str
    captions: list[str]


# ----------------------------------------------------------------------------------------------- publish


def publish(plan: RunPlan, into: Path) -> list[Path]:
    """Write a file for each scored run of a plan, and the references; return the files of these runs.

    Files of runs that are not here stay, because the runs of a profile are made in several places.
    """
    paths, files = Paths(plan), []
    for scored in _evaluations(plan):
        if not paths.is_scored(scored):
            continue
        file = into / plan.profile.name / f"{scored.path}{ENDING}"
        header, images = _content(plan, scored, into)
        earlier = read_published(file)[0] if file.is_file() else header
        if replace(header, finished=earlier.finished, python=earlier.python) == earlier:
            header = earlier
        _write(file, [asdict(header), *map(asdict, images)])
        files.append(file)
    log.info(f"{into / plan.profile.name}: {counted(len(files), 'run')} of {len(plan.scored())} published")
    return files


def _evaluations(plan: RunPlan, table_id: str = "") -> list[Run | ScoredFile]:
    """Return all that is scored for a table, or for a plan."""
    if table_id:
        return [*plan.table_runs(table_id), *plan.scored_files(table_id)]
    return [*plan.scored(), *plan.scored_files()]


def _content(plan: RunPlan, scored: Run | ScoredFile, into: Path) -> tuple[Header, list[Image]]:
    paths = Paths(plan)
    folder = Path(paths.results) / "scores" / scored.path
    metrics = read_metrics(folder)
    captions, columns = read_captions(folder, metrics.split), read_image_scores(folder, metrics.split)
    ids = columns.pop("image_id").tolist()
    if ids != sorted(captions):
        raise MetricError(f"{folder}: its captions and scores are of other images; evaluate this run again")
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    images = [
        Image(each, captions[each], dict(zip(columns, of_image, strict=True)))
        for each, of_image in zip(ids, values, strict=True)
    ]
    runs = [stage for part in scored.parts() for stage in plan.stages(part)] if isinstance(scored, Run) else []
    behind = [_training(Path(paths.results) / "runs", run.path) for run in dict.fromkeys(runs)]
    signature, torch = parse_signature(metrics.signature), [str(each.training.get("torch", "")) for each in behind]
    versions = {name: signature[name] for name in ("recap", "pycocoevalcap") if name in signature}
    dates = {each.path: (Path(paths.results) / "runs" / each.path / "training.json").stat().st_mtime for each in behind}
    header = Header(
        metrics=read_json(folder / "metrics.json"),
        seed=scored.seed if isinstance(scored, Run) and not scored.members else None,
        references=_write_references(Path(paths.of_dataset(scored, "corpus.parquet")), metrics.split, into),
        trainings=behind,
        versions=versions | ({"torch": torch[-1]} if torch else {}),
        cpu_seconds={each.path: each.cpu_seconds for each in behind},
        finished={path: datetime.fromtimestamp(time, UTC).date().isoformat() for path, time in dates.items()},
        python=platform.python_version(),
    )
    return header, images


def _training(runs: Path, path: str) -> Training:
    folder, texts = runs / path, {}
    check(folder / "training.json")
    for name in _TEXTS:
        check(folder / name)
        with reading(folder / name, missing="train this run first"):
            texts[name] = (folder / name).read_text(encoding="utf-8")
    return Training(path, read_json(folder / "training.json", dict[str, Any]), texts)


def _write_references(corpus: Path, split: str, into: Path) -> str:
    """Write the references of a split, which its hash names, and return the name of the file."""
    table = Corpus.read(corpus)
    name, files = f"references.{table.dataset}.{split}.{table.split_hash}{ENDING}", table.files()
    captions = table.captions(split)
    _write(into / name, [asdict(References(each, files[each], captions[each])) for each in captions])
    return name


def _write(path: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write lines of JSON, compressed, unless the file says the same: another zlib may compress otherwise."""
    texts = (json.dumps(line, ensure_ascii=False, allow_nan=False) for line in lines)
    content = "".join(f"{text}\n" for text in texts).encode("utf-8")
    if not path.is_file() or gzip.decompress(path.read_bytes()) != content:
        with atomic_path(path) as temporary:
            temporary.write_bytes(gzip.compress(content, compresslevel=9, mtime=0))


# ----------------------------------------------------------------------------------------------- read and restore


def read_published(path: Path) -> tuple[Header, list[Image]]:
    """Return what is published of a run."""
    head, *images = _lines(path)
    return parse_json(head, f"{path}: line 1", Header), _parsed(images, path, Image, 2)


def metrics_of(header: Header, file: Path) -> Metrics:
    """Return the corpus scores of a published run."""
    metrics: Metrics = parse_json(json.dumps(header.metrics).encode(), f"{file}: line 1: metrics", Metrics)
    return metrics


def read_references(published: Path, header: Header, file: Path) -> list[References]:
    """Return the references of a published run's images."""
    path = published / header.references
    if path.parent != published:
        raise DataError(f"{file}: its references {header.references!r} are no name of a file; {_AGAIN}")
    return _parsed(_lines(path), path, References, 1)


def _lines(path: Path) -> list[bytes]:
    with reading(path, missing=_AGAIN, damaged=_AGAIN):
        content = gzip.decompress(path.read_bytes())
    if not content.endswith(b"\n"):
        raise DataError(f"{path}: is cut off; {_AGAIN}")
    return content[:-1].split(b"\n")


def _parsed(lines: Sequence[bytes], path: Path, kind: Any, first: int) -> list[Any]:
    return [parse_json(line, f"{path}: line {number}", kind) for number, line in enumerate(lines, first)]


def published_files(folder: Path) -> dict[str, Path]:
    """Return the files of a profile's published runs by the path of the run."""
    files = {file.relative_to(folder).as_posix().removesuffix(ENDING): file for file in folder.rglob(f"*{ENDING}")}
    return dict(sorted(files.items()))


@contextmanager
def restored(plan: RunPlan, published: Path) -> Iterator[tuple[RunPlan, dict[str, Header]]]:
    """Yield a plan whose results are made again from published files, with the headers of its runs by path.

    The results are in a temporary folder. Tables have the seeds that all of their rows are published with, and
    statistics where there are any.
    """
    files = published_files(published / plan.profile.name)
    planned = [each.path for each in _evaluations(plan) if each.path in files]
    with TemporaryDirectory(prefix="recap-published-") as name:
        copy = plan.below(Path(name), {table_id: _shared_seeds(plan, table_id, files) for table_id in plan.tables})
        results = Path(Paths(copy).results)
        headers = {path: _restore(files[path], path, results) for path in planned}
        _write_statistics(copy)
        yield copy, headers


def _restore(file: Path, path: str, results: Path) -> Header:
    """Write the files of a run and of its trainings as jobs leave them, and return its header."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    header, images = read_published(file)
    metrics, folder = metrics_of(header, file), results / "scores" / path
    scores, captions = folder / f"scores.{metrics.split}.parquet", folder / f"captions.{metrics.split}.json"
    columns: dict[str, Any] = {"image_id": pa.array([each.id for each in images], pa.int64())}
    for name in images[0].scores if images else ():
        with reading(file, damaged=_AGAIN):
            columns[name] = pa.array(np.array([each.scores[name] for each in images], np.float64))
    write_json(captions, [{"image_id": each.id, "caption": each.caption} for each in images])
    with atomic_path(scores) as temporary:
        pq.write_table(pa.table(columns), temporary, write_page_checksum=True)
    write_json(folder / "metrics.json", header.metrics)
    record(captions, scores, folder / "metrics.json")
    for training in header.trainings:
        of_run = (results / "runs" / training.path).resolve()
        if not of_run.is_relative_to((results / "runs").resolve()):
            raise DataError(f"{file}: the path {training.path!r} leads out of the results; {_AGAIN}")
        write_json(of_run / "training.json", training.training)
        for name in _TEXTS:
            write_text(of_run / name, training.texts.get(name, ""))
        record(of_run / "training.json", *(of_run / name for name in _TEXTS))
    return header


def _shared_seeds(plan: RunPlan, table_id: str, paths: Mapping[str, Path]) -> list[int]:
    """Return the seeds that every row of a table is published with; all of them where it has none, or ensembles."""
    table, seeds = plan.tables[table_id], plan.seeds[table_id]
    runs = plan.table_runs(table_id)
    missing = {run.seed for run in runs if run.path not in paths}
    shared = [] if any(row.ensemble for row in table.rows) else [seed for seed in seeds if seed not in missing]
    return shared or seeds


def _write_statistics(plan: RunPlan) -> None:
    """Write the statistics of the tables whose runs are all here, as the workflow does."""
    paths = Paths(plan)
    results = Path(paths.results)
    for table_id, table in plan.tables.items():
        name = file_name(table_id)
        if not all(map(paths.is_scored, _evaluations(plan, table_id))):
            continue
        selection = results / "statistics" / "selections" / f"{name}.json" if table.selections else None
        if selection:
            spec: SelectedRows = validate(SelectedRows, selection_spec(plan, table_id), table_id)
            write_selections(spec, runs=results / "runs", out=selection)
        behind = trainings(plan, table_id).items()
        compare_table(
            table=table,
            name=name,
            seeds=plan.seeds[table_id],
            scores_root=results / "scores",
            statistics_out=results / "statistics" / f"{name}.json",
            trainings={run: [results / "runs" / path for path in stages] for run, stages in behind},
            selection=selection,
        )
