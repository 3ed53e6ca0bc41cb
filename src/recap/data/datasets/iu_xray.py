"""IU X-ray: studies of the Indiana University collection,
each with its views and the findings of its report.

A study is one row of the corpus: image id and caption id are the number of its report, and its file
names all its views in the order of the report's XML (see `recap.data.files.images.VIEWS`). Into the
folder of the data set go ``images.zip`` (the pictures in use, byte by byte as they came),
``studies.csv`` (every report: its split or why it is left out, its pictures and views) and
``counts.md`` (the same, counted).
"""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import Field

from recap.core.errors import DataError
from recap.core.files import atomic_path, csv_text, write_text
from recap.core.hashing import generator, sha256_file, value_hash
from recap.core.log import log, progress
from recap.data.corpus import SPLITS, Caption
from recap.data.datasets.base import Built
from recap.data.datasets.iu_xray_reports import Study, read_reports
from recap.data.files.archives import contents
from recap.data.files.entries import Entry, String, Text, csv_entries, parsed, read_json_of
from recap.data.files.images import MAX_BYTES, VIEWS
from recap.data.tokenizer import tokenize_report
from recap.settings.datasets import IuXrayDataset

MOST_MISSING = 10  # studies that are left out because a picture is missing; more: a wrong archive


class AnnotatedStudy(Entry):
    """A study of the annotation; its id starts with the report's uid, ``k.png`` is picture k."""

    id: Annotated[String, Field(pattern=r"^CXR\d+_\S+$")]
    report: Annotated[String, Field(pattern=r"\S")]
    image_path: Annotated[
        list[Annotated[String, Field(pattern=r"(^|/)[0-9]{1,9}(\.\w+)?$")]], Field(min_length=1)
    ]


class Annotation(Entry):
    """The annotation of Chen et al."""

    train: list[AnnotatedStudy]
    val: list[AnnotatedStudy]
    test: list[AnnotatedStudy]


class Projection(Entry):
    """A row of the table of views: ``1_IM-0001-4001.dcm.png`` is Frontal or Lateral."""

    filename: Text
    projection: Text


def build(spec: IuXrayDataset, *, inputs: Path, out: Path, name: str) -> Built:
    """Return the captions of all studies and a hash of their sources.

    Arguments as of a `Reader`.
    """
    reports = read_reports(inputs / spec.reports)
    annotation_sha256 = None
    if spec.annotations:
        candidates = annotated(inputs / spec.annotations, reports)
        annotation_sha256 = sha256_file(inputs / spec.annotations)
    else:
        candidates = usable(reports, spec.views)
    views = read_views(inputs / spec.projections) if spec.projections else {}
    wanted = set(chain.from_iterable(study.pictures for study in candidates))
    files = pack_pictures([inputs / images for images in spec.images], wanted, out / "images.zip")
    if not spec.images:
        files = {picture: picture for picture in wanted}  # captions alone are read
    lacking = missing_pictures(candidates, files, ", ".join(spec.images))
    studies = [study for study in candidates if study.uid not in lacking]
    if not spec.annotations:
        studies = drawn(studies)
    reasons = _write_studies(reports, studies, lacking, views, spec, out)
    _write_counts(reports, studies, candidates, lacking, reasons, views, spec, out)
    captions = []
    for study in studies:
        file = VIEWS.join(files[picture] for picture in study.pictures)
        words = tokenize_report(study.findings)[: spec.max_words]
        captions.append(
            Caption(study.number, file, study.split, study.number, study.findings, words)
        )
    texts = [[report.uid, report.findings, list(report.pictures)] for report in reports.values()]
    return Built(captions, value_hash([texts, annotation_sha256]))


def usable(reports: Mapping[str, Study], views: int) -> list[Study]:
    """Return the studies with findings and enough pictures, of which so many are taken."""
    studies = []
    for report in reports.values():
        if report.findings and len(report.pictures) >= views:
            studies.append(replace(report, pictures=report.pictures[:views]))
    return studies


def read_views(path: Path) -> dict[str, str]:
    """Return the view that each picture shows, ``frontal`` or ``lateral``, by its stem."""
    views = {}
    for _, row in csv_entries(path, Projection):
        views["CXR" + row.filename.partition(".")[0]] = row.projection.lower()
    return views


def missing_pictures(
    studies: Sequence[Study], files: Container[str], images: str
) -> dict[str, list[str]]:
    """Return the pictures that are not there of each study that lacks some, by its uid."""
    lacking: dict[str, list[str]] = {}
    for study in studies:
        absent = [picture for picture in study.pictures if picture not in files]
        if absent:
            lacking[study.uid] = absent
    if len(lacking) > MOST_MISSING:
        uid, pictures = next(iter(lacking.items()))
        raise DataError(
            f"{images}: {len(lacking)} studies lack a picture (the first is {uid}: "
            f"{pictures[0]}), and at most {MOST_MISSING} may be left out; complete the images"
        )
    return lacking


def annotated(path: Path, reports: Mapping[str, Study]) -> list[Study]:
    """Return the studies that an annotation names, in its order."""
    annotation = parsed(Annotation, read_json_of(path), str(path))
    studies: dict[str, Study] = {}
    for split in SPLITS:
        for entry in getattr(annotation, split):
            report = reports.get(entry.id.partition("_")[0])
            numbers = [int(PurePosixPath(file).stem) for file in entry.image_path]
            wrong = ""
            if report is None:
                wrong = "has no report"
            elif report.uid in studies:
                wrong = f"is duplicated (in {studies[report.uid].split!r})"
            elif max(numbers) >= len(report.pictures):
                wrong = (
                    f"asks for view {max(numbers)}, but its report refers to "
                    f"{len(report.pictures)} pictures, counted from 0"
                )
            if report is None or wrong:
                raise DataError(
                    f"{path}: the study {entry.id} of {split!r} {wrong}; correct the annotation"
                )
            pictures = tuple(report.pictures[number] for number in numbers)
            studies[report.uid] = Study(report.uid, entry.report, pictures, split)
    return list(studies.values())


def drawn(studies: Sequence[Study]) -> list[Study]:
    """Give studies a split, 7 : 1 : 2 at random, the same on every machine and for every order of
    the studies.

    Train and val are rounded up, which gives 2,069 / 296 / 590 for the 2,955 studies that Chen et
    al. kept.
    """
    ordered = sorted(studies, key=lambda study: study.uid)
    train = -(-7 * len(ordered) // 10)
    val = -(-len(ordered) // 10)
    places = generator(0, "iu_xray", "split").permutation(len(ordered)).tolist()
    split_of = ["train"] * train + ["val"] * val + ["test"] * len(ordered)
    return [
        replace(study, split=split_of[place]) for study, place in zip(ordered, places, strict=True)
    ]


def pack_pictures(sources: Sequence[Path], wanted: Container[str], out: Path) -> dict[str, str]:
    """Copy the wanted pictures of folders, zips and tgz's into one zip.

    Return the file name of each found, by stem.
    """
    files: dict[str, str] = {}

    def is_wanted(name: str) -> bool:
        return (
            name.lower().endswith((".png", ".jpg", ".jpeg")) and PurePosixPath(name).stem in wanted
        )

    with atomic_path(out) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for source in sources:
            pictures = contents(source, wanted=is_wanted, max_bytes=MAX_BYTES)
            for name, content in progress(pictures, name=source.name, unit="pictures", total=None):
                picture = PurePosixPath(name)
                if picture.stem in files:
                    raise DataError(
                        f"{source}: there are two pictures {picture.stem}; remove one of them"
                    )
                files[picture.stem] = picture.name
                # without a date: equal bytes
                archive.writestr(zipfile.ZipInfo(picture.name), content)
    return files


def _why_left_out(report: Study, spec: IuXrayDataset, *, lacks_pictures: bool) -> str:
    if lacks_pictures:
        return "a picture is missing from the images"
    if not report.findings:
        return "no findings"
    if len(report.pictures) < spec.views:
        return f"findings, but fewer than {spec.views} pictures"
    return "not in the annotation"


def _write_studies(
    reports: Mapping[str, Study],
    studies: Sequence[Study],  # those in use
    lacking: Mapping[str, list[str]],  # pictures that are not there
    views: Mapping[str, str],
    spec: IuXrayDataset,
    out: Path,
) -> Counter[str]:
    """Write every report with its split, or why it is left out; return how often each reason is."""
    used = {study.uid: study for study in studies}
    rows = [["report", "split", "left_out", "pictures", "views"]]
    reasons: Counter[str] = Counter()
    for uid, report in reports.items():
        study = used.get(uid, report)
        why = "" if uid in used else _why_left_out(report, spec, lacks_pictures=uid in lacking)
        if why:
            reasons[why] += 1
        if uid in lacking:
            why += f": {', '.join(lacking[uid])}"
        kinds = VIEWS.join(_views_of(study, views))
        rows.append([uid, study.split, why, VIEWS.join(study.pictures), kinds])
    write_text(out / "studies.csv", csv_text(rows))
    return reasons


def _views_of(study: Study, views: Mapping[str, str]) -> list[str]:
    return [views.get(picture, "unknown") for picture in study.pictures]


def _by_split(studies: Sequence[Study]) -> str:
    splits = Counter(study.split for study in studies)
    return ", ".join(f"{splits[split]:,} {split}" for split in SPLITS)


def _write_counts(
    reports: Mapping[str, Study],
    studies: Sequence[Study],
    candidates: Sequence[Study],
    lacking: Mapping[str, list[str]],
    reasons: Counter[str],
    views: Mapping[str, str],
    spec: IuXrayDataset,
    out: Path,
) -> None:
    """Write and print what leads from all reports,
    and from those that an annotation names, to the studies in use."""
    referred = sum(len(report.pictures) for report in reports.values())
    shown = sum(len(study.pictures) for study in studies)
    lines = [f"{len(reports):,} reports refer to {referred:,} pictures"]
    if spec.annotations:
        lines.append(f"the annotation names {len(candidates):,} studies ({_by_split(candidates)})")
    lines += [f"{count:,} reports left out: {why}" for why, count in reasons.most_common()]
    lines += [
        f"{uid} left out, no picture {', '.join(lacking[uid])}" for uid in reports if uid in lacking
    ]
    lines.append(
        f"{len(studies):,} studies in use ({_by_split(studies)}), with {shown:,} of the "
        f"{referred:,} pictures"
    )
    if views:
        pairs = Counter(" and ".join(_views_of(study, views)) for study in studies)
        lines.append(
            "views: " + ", ".join(f"{count:,} {pair}" for pair, count in pairs.most_common())
        )
    write_text(out / "counts.md", "".join(f"- {line}\n" for line in lines))
    for line in lines:
        log.info(f"iu_xray: {line}")
