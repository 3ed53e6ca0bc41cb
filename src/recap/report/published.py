"""Published runs: a small file of each scored run, kept in git;
from it results are restored, and checked.

The first line of a file is its :class:`Header`; each further line is an :class:`Image`. The
reference captions are other people's texts and stay out of it: it has their hash, and scoring again
needs the data set.
"""

from __future__ import annotations

import gzip
import json
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from recap.core.checksums import check
from recap.core.documents import parse_json, read_json, write_json
from recap.core.errors import DataError, MetricError, RecapError, counted
from recap.core.files import atomic_path, reading, write_text
from recap.core.hashing import parse_signature, value_sha256
from recap.core.log import log
from recap.data.corpus import Corpus
from recap.metrics.scores import Scores, score
from recap.plan.plan import Plan
from recap.plan.run import Run, ScoredFile, baseline, file_name
from recap.plan.run_jobs import is_scored
from recap.plan.table_jobs import select_job, statistics_job
from recap.settings.metrics import COCO, METRICS
from recap.statistics.compare import compare_table, write_selections
from recap.statistics.scores import Metrics, read_captions, read_image_scores, read_metrics
from recap.tables.samples import draw_images

PUBLISHED = "published"  # folder below that of the pages
ENDING = ".jsonl.gz"
PICTURES = "pictures.json"  # in the folder of a profile
_MEANS = ("CIDEr", "ROUGE-L")  # scores of a corpus that are the means of those of its images
TOLERANCE = 1e-9  # between published scores and those of the same captions today
_AGAIN = "restore it from git, or delete it and publish its run again"
_TEXTS = ("config.yaml", "history.csv")


@dataclass(frozen=True)
class Training:
    """One training behind a scored run, with its files as they are."""

    path: str  #: folder below ``runs/``
    cpu_seconds: float  #: seconds times threads
    training: dict[str, Any]  #: ``training.json``: seconds, threads, versions, digests
    texts: dict[str, str]  #: ``config.yaml`` and ``history.csv``
    finished: str = field(compare=False)  #: day of its record; a copy of a run may have another


@dataclass(frozen=True)
class Header:
    """All that tables, statistics, claims and curves need of a run beside its images."""

    metrics: dict[str, Any]  #: ``metrics.json``: corpus scores, signature, decoding
    seed: int | None  #: of one training; ensembles and captions of others have none
    captions_sha256: str  #: of the captions of all images
    scores_sha256: str  #: of the scores of the corpus and of all images
    references_sha256: str  #: of the reference captions of these images
    trainings: list[Training]
    #: Python published; recap and pycocoevalcap scored; torch trained
    versions: dict[str, str] = field(compare=False)


@dataclass(frozen=True)
class Image:
    """One image of a run."""

    id: int
    caption: str
    scores: dict[str, float]


def captions_hash(images: Iterable[Image]) -> str:
    """Return the hash of the captions of a run."""
    return value_sha256([[image.id, image.caption] for image in images])


def scores_hash(metrics: Mapping[str, Any], images: Iterable[Image]) -> str:
    """Return the hash of the scores of a corpus, in its ``metrics.json``, and of its images."""
    return value_sha256([metrics.get("scores"), [[image.id, image.scores] for image in images]])


def references_hash(references: Mapping[int, Sequence[str]]) -> str:
    """Return the hash of the reference captions of images by id."""
    return value_sha256([[image_id, list(references[image_id])] for image_id in sorted(references)])


def _evaluations(plan: Plan) -> list[Run | ScoredFile]:
    """Return all that is scored for a plan."""
    return [*plan.scored, *plan.scored_files]


def publish(plan: Plan, into: Path) -> list[Path]:
    """Write a file for each scored run of a plan; return these files."""
    # Files of runs that are not here stay,
    # because the runs of a profile are made in several places.
    files = []
    for scored in _evaluations(plan):
        if not is_scored(plan, scored):
            continue
        file = into / plan.profile.name / f"{scored.path}{ENDING}"
        header, images = _content(plan, scored)
        if not file.is_file() or read_published(file) != (header, images):
            _write(file, [header, *images])
        files.append(file)
    if files:
        _write_pictures(plan, into / plan.profile.name / PICTURES)
    log.info(
        f"{into / plan.profile.name}: {counted(len(files), 'run')} of {len(_evaluations(plan))} "
        "published"
    )
    return files


def _write_pictures(plan: Plan, out: Path) -> None:
    """Write the file names of the pictures whose captions the page shows: table -> id -> file."""
    names = {}
    for table_id, table in plan.tables.items():
        corpus = Corpus.read(plan.files.of("corpus", dataset=baseline(table).dataset)["corpus"])
        files = corpus.files()
        ids = sorted(corpus.captions("test"))
        seed = plan.seeds[table_id][0]
        drawn = draw_images(file_name(table_id), seed, ids, plan.profile.sample_captions)
        names[table_id] = {image: files[image] for image in drawn}
    write_json(out, names)


def _content(plan: Plan, scored: Run | ScoredFile) -> tuple[Header, list[Image]]:
    folder = Path(plan.files.results) / "scores" / scored.path
    metrics = read_metrics(folder)
    captions = read_captions(folder, metrics.split)
    columns = read_image_scores(folder, metrics.split)
    values = {name: column.tolist() for name, column in columns.items()}
    images = []
    for at, image in enumerate(values.pop("image_id")):
        scores = {name: of_images[at] for name, of_images in values.items()}
        images.append(Image(image, captions[image], scores))
    parts = scored.parts() if isinstance(scored, Run) else []
    stages: list[str] = []
    for part in parts:
        stages += [stage.path for stage in plan.stages(part)]
    runs = Path(plan.files.results) / "runs"
    behind = [_training(runs, path) for path in dict.fromkeys(stages)]
    versions = {"python": platform.python_version()}
    for name in ("recap", "pycocoevalcap"):
        versions[name] = parse_signature(metrics.signature).get(name, "unknown")
    if behind:
        versions["torch"] = str(behind[-1].training.get("torch", "unknown"))
    corpus = read_json(folder / "metrics.json")
    references = Corpus.read(plan.files.of("corpus", dataset=scored.dataset)["corpus"]).captions(
        metrics.split
    )
    header = Header(
        metrics=corpus,
        seed=parts[0].seed if len(parts) == 1 else None,
        captions_sha256=captions_hash(images),
        scores_sha256=scores_hash(corpus, images),
        references_sha256=references_hash(references),
        trainings=behind,
        versions=versions,
    )
    return header, images


def _training(runs: Path, path: str) -> Training:
    folder = runs / path
    file = folder / "training.json"
    for name in (file.name, *_TEXTS):
        check(folder / name)
    values = read_json(file, dict[str, Any])
    with reading(folder / _TEXTS[0], missing="train this run first"):
        texts = {name: (folder / name).read_text(encoding="utf-8") for name in _TEXTS}
    finished = datetime.fromtimestamp(file.stat().st_mtime, UTC).date().isoformat()
    return Training(path, values["seconds"] * values.get("threads", 1), values, texts, finished)


def _write(path: Path, lines: Sequence[Any]) -> None:
    texts = (json.dumps(asdict(line), ensure_ascii=False, allow_nan=False) for line in lines)
    content = "".join(f"{text}\n" for text in texts).encode("utf-8")
    with atomic_path(path) as temporary:
        temporary.write_bytes(gzip.compress(content, compresslevel=9, mtime=0))


def read_published(path: Path) -> tuple[Header, list[Image]]:
    """Return what is published of a run; captions and scores have its header's hashes."""
    with reading(path, missing=_AGAIN, damaged=_AGAIN):
        first, *lines = gzip.decompress(path.read_bytes()).splitlines()
    header: Header = parse_json(first, f"{path}: line 1", Header)
    images: list[Image] = []
    for number, line in enumerate(lines, start=2):
        images.append(parse_json(line, f"{path}: line {number}", Image))
    if not images or any(image.scores.keys() != images[0].scores.keys() for image in images):
        raise DataError(f"{path}: has no images, or not the same scores of each; {_AGAIN}")
    hashes = {
        "captions": (header.captions_sha256, captions_hash(images)),
        "scores": (header.scores_sha256, scores_hash(header.metrics, images)),
    }
    for what, (before, now) in hashes.items():
        if before != now:
            raise DataError(f"{path}: its {what} are not those that were published; {_AGAIN}")
    return header, images


def metrics_of(header: Header, file: Path) -> Metrics:
    """Return the corpus scores of a published run."""
    text = json.dumps(header.metrics).encode()
    metrics: Metrics = parse_json(text, f"{file}: line 1: metrics", Metrics)
    return metrics


def published_files(folder: Path) -> dict[str, Path]:
    """Return the files of a profile's published runs by the path of the run."""
    files = sorted(folder.rglob(f"*{ENDING}"))
    return {file.relative_to(folder).as_posix().removesuffix(ENDING): file for file in files}


@contextmanager
def restored(plan: Plan, published: Path) -> Iterator[tuple[Plan, dict[str, Header]]]:
    """Yield a plan with results from published files,
    in a temporary folder, and the headers of its runs by path."""
    files = published_files(published / plan.profile.name)
    seeds = dict(plan.seeds)
    for table_id, table in plan.tables.items():
        missing = {run.seed for run in plan.table_runs(table_id) if run.path not in files}
        # Those that all rows are published with, if there are any.
        common = [seed for seed in seeds[table_id] if seed not in missing]
        if common and not any(row.ensemble for row in table.rows):
            seeds[table_id] = common
    with TemporaryDirectory(prefix="recap-published-") as name:
        copy = plan.below(Path(name), seeds)
        results = Path(copy.files.results)
        headers = {}
        for scored in _evaluations(plan):
            if scored.path in files:
                headers[scored.path] = _restore(files[scored.path], scored.path, results)
        for table_id in copy.tables:
            if all(is_scored(copy, scored) for scored in copy.table_scored(table_id)):
                _write_statistics(copy, table_id)
        yield copy, headers


def _restore(file: Path, path: str, results: Path) -> Header:
    """Write the files of a run and of its trainings as jobs leave them, and return its header."""
    header, images = read_published(file)
    metrics = metrics_of(header, file)
    folder = results / "scores" / path
    captions = [{"image_id": each.id, "caption": each.caption} for each in images]
    scores = pa.Table.from_pylist([{"image_id": each.id, **each.scores} for each in images])
    write_json(folder / f"captions.{metrics.split}.json", captions)
    pq.write_table(scores, folder / f"scores.{metrics.split}.parquet", write_page_checksum=True)
    write_json(folder / "metrics.json", header.metrics)
    runs = (results / "runs").resolve()
    for training in header.trainings:
        of_run = (runs / training.path).resolve()  # a path of another's file may lead elsewhere
        if not of_run.is_relative_to(runs) or training.texts.keys() != set(_TEXTS):
            raise DataError(
                f"{file}: {training.path!r} is no training with {' and '.join(_TEXTS)}; {_AGAIN}"
            )
        write_json(of_run / "training.json", training.training)
        for name, text in training.texts.items():
            write_text(of_run / name, text)
    return header


def _write_statistics(plan: Plan, table_id: str) -> None:
    """Write the statistics of a table, as the workflow does."""
    results = Path(plan.files.results)
    selection = None
    if plan.tables[table_id].selections:
        select = select_job(plan, table_id)
        selection = Path(plan.files.of("select", **select.wildcards)["selections"])
        write_selections(select.spec, runs=results / "runs", out=selection)
    job = statistics_job(plan, table_id)
    trainings = {}
    for run, folders in job.spec.trainings.items():
        trainings[run] = list(map(Path, folders))
    compare_table(
        table=plan.tables[table_id],
        seeds=plan.seeds[table_id],
        trainings=trainings,
        name=file_name(table_id),
        scores_root=results / "scores",
        statistics_out=Path(plan.files.of("statistics", **job.wildcards)["statistics"]),
        selection=selection,
    )


def published_runs(into: Path) -> list[Path]:
    """Return the files of all published runs."""
    return sorted((into / PUBLISHED).glob(f"*/**/*{ENDING}"))


def dataset_of(file: Path, into: Path) -> str:
    """Return a published run's data set, with which its path in the profile's folder begins."""
    return file.relative_to(into / PUBLISHED).parts[1]


def changed_means(file: Path) -> Iterator[str]:
    """Yield a sentence for a published run that is not what was published,
    or whose means its images do not give."""
    try:
        header, images = read_published(file)
    except RecapError as error:
        yield str(error)
        return
    for name, before in metrics_of(header, file).scores.items():
        if name in _MEANS and before is not None:
            mean = fmean(image.scores[name] for image in images)
            if not abs(before - mean) <= TOLERANCE:
                yield (
                    f"{file}: corpus: {name} is {before!r}, and the mean over its images is "
                    f"{mean!r}"
                )


def changed_scores(file: Path, corpus: Corpus) -> Iterator[str]:
    """Score the captions of a published run again.

    Yield a sentence for each of COCO's scores that is another one.
    """
    header, images = read_published(file)
    of_run = metrics_of(header, file)
    published = of_run.scores
    references = corpus.captions(of_run.split)
    if references_hash(references) != header.references_sha256:
        yield f"{file}: was scored by other reference captions than those of {corpus.dataset} here"
        return
    metrics = []
    for metric in COCO:
        if any(published.get(name) is not None for name in METRICS.get(metric).names):
            metrics.append(metric)
    captions = {image.id: image.caption for image in images}
    try:
        scores = score(references, captions, metrics=metrics)
    except MetricError as error:
        yield f"{file}: {error}"
        return
    yield from (
        f"{file}: {name} was not scored again: {why}" for name, why in scores.failed.items()
    )
    for metric in metrics:
        if metric not in scores.failed:
            for name in METRICS.get(metric).names:
                yield from _changed_score(file, name, published.get(name), images, scores)


def _changed_score(
    file: Path, name: str, corpus: float | None, images: Sequence[Image], scores: Scores
) -> Iterator[str]:
    """Yield a sentence for the score of a published corpus, and of each image, that is another."""
    again = scores.per_image.get(name, {})
    pairs = [("corpus", corpus, scores.corpus[name])]
    pairs += [(f"image {each.id}", each.scores.get(name), again.get(each.id)) for each in images]
    for where, before, now in pairs:
        if before is None or now is None or not abs(before - now) <= TOLERANCE:
            yield f"{file}: {where}: {name} is {before!r}, and scored again it is {now!r}"
