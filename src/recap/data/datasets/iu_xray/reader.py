"""IU X-ray: studies of the Indiana University collection, each with its views and the findings of its report.

A study is one row of the corpus: image id and caption id are the number of its report, and its file names all its
views in the order of the report's XML (see `recap.data.corpus.corpus.VIEWS`).
"""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from recap.core.errors import DataError
from recap.core.files import atomic_path, write_text
from recap.core.hashing import sha256_file, value_hash
from recap.core.log import log, progress
from recap.data.corpus.corpus import VIEWS, Caption, need_splits
from recap.data.datasets.base import Built, warn_of_part
from recap.data.datasets.iu_xray.exclusions import count_lines, left_out, write_studies
from recap.data.datasets.iu_xray.reports import Report, read_reports
from recap.data.datasets.iu_xray.split import Study, annotated, drawn
from recap.data.datasets.iu_xray.text import tokenize_report
from recap.data.files.archives import contents
from recap.data.files.images import MAX_BYTES
from recap.settings.datasets import STUDIES, IuXrayDataset

_PICTURES = (".png", ".jpg", ".jpeg")


def build(spec: IuXrayDataset, *, inputs: Path, out: Path, name: str) -> Built:
    """Return the captions of all studies and a hash of their sources; arguments as of a `Reader`.

    Into ``out`` go ``images.zip`` (the pictures in use, byte by byte as they came), ``studies.csv`` (every report: its
    split or why it is left out, its pictures and views) and ``counts.md`` (the same, counted), which is also printed.
    """
    reports = read_reports(inputs / spec.reports)
    candidates = _candidates(spec, reports, inputs)
    views = _projections(inputs / spec.projections) if spec.projections else {}
    wanted = {picture for study in candidates for picture in study.pictures}
    files = pack_pictures([inputs / images for images in spec.images], wanted, out / "images.zip")
    absent = {study.uid: [name for name in study.pictures if name not in files] for study in candidates}
    lacking = {uid: names for uid, names in absent.items() if names}
    _check_missing(lacking, spec)
    studies = [study for study in candidates if study.uid not in lacking]
    if not spec.annotations:
        studies = drawn(studies, seed=spec.split_seed)
    reasons = left_out(reports, studies, lacking=lacking, views=spec.views)
    named = candidates if spec.annotations else []
    lines = count_lines(reports, studies, named=named, reasons=reasons, views=views)
    write_studies(out / "studies.csv", reports, studies, reasons=reasons, views=views)
    write_text(out / "counts.md", "".join(f"- {line}\n" for line in lines))
    for line in lines:
        log.info(f"iu_xray: {line}")
    warn_of_part(inputs / spec.reports, len(studies), STUDIES, "studies in use")
    need_splits({study.split for study in studies}, "iu_xray")
    return Built([_caption(study, files, spec.max_words) for study in studies], _source_hash(spec, reports, inputs))


def pack_pictures(sources: Sequence[Path], wanted: Iterable[str], out: Path) -> dict[str, str]:
    """Copy the wanted pictures of folders, zips and tgz's into one zip; return the file name of each found, by stem."""
    names = set(wanted)
    files: dict[str, str] = {}

    def is_wanted(name: str) -> bool:
        return name.lower().endswith(_PICTURES) and PurePosixPath(name).stem in names

    with atomic_path(out) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for source in sources:
            found = contents(source, wanted=is_wanted, max_bytes=MAX_BYTES)
            for name, content in progress(found, name=source.name, unit="pictures", total=len(names)):
                picture = PurePosixPath(name)
                if picture.stem in files:
                    raise DataError(f"{source}: there are two pictures {picture.stem}; remove one of them")
                files[picture.stem] = picture.name
                archive.writestr(zipfile.ZipInfo(picture.name), content)  # without a date: equal bytes
    return files


def _candidates(spec: IuXrayDataset, reports: Mapping[str, Report], inputs: Path) -> list[Study]:
    """Return the studies that are used if their pictures are there; without an annotation they have no split yet."""
    if spec.annotations:
        return annotated(inputs / spec.annotations, reports)
    return [
        Study(report.uid, "", report.findings, report.pictures[: spec.views])
        for report in reports.values()
        if report.findings and len(report.pictures) >= spec.views
    ]


def _check_missing(lacking: Mapping[str, list[str]], spec: IuXrayDataset) -> None:
    """Refuse images that lack more than a few studies."""
    if len(lacking) > spec.max_missing:
        uid, pictures = next(iter(lacking.items()))
        raise DataError(
            f"{', '.join(spec.images)}: {len(lacking)} studies lack a picture (the first is {uid}: {pictures[0]}), "
            f"more than max_missing = {spec.max_missing}; complete the images, or raise max_missing to go without them"
        )


def _projections(path: Path) -> dict[str, str]:
    """Return 'frontal' or 'lateral' of each picture, by its name without suffix."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        kinds = {"CXR" + row["filename"].split(".", 1)[0]: row["projection"].strip().lower() for row in rows}
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, AttributeError, TypeError) as error:
        raise DataError(f"{path}: no table with the columns filename and projection ({error!r}); fetch it") from error
    if not kinds:
        raise DataError(f"{path}: no lines under the columns filename and projection; fetch it again")
    return kinds


def _source_hash(spec: IuXrayDataset, reports: Mapping[str, Report], inputs: Path) -> str:
    texts = [[report.uid, report.findings, list(report.pictures)] for report in reports.values()]
    return value_hash([texts, sha256_file(inputs / spec.annotations) if spec.annotations else None])


def _caption(study: Study, files: Mapping[str, str], most: int | None) -> Caption:
    """Return a study with the whole text of its findings, and at most this number of words."""
    number = int(study.uid.removeprefix("CXR"))
    words = tokenize_report(study.findings)
    if not words:
        raise DataError(f"iu_xray: the findings of {study.uid} hold no word ({study.findings!r}); remove the study")
    file = VIEWS.join(files[picture] for picture in study.pictures)
    return Caption(number, file, study.split, number, study.findings, words[:most])
