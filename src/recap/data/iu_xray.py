"""IU X-ray: studies of the Indiana University chest X-ray collection, each with its views and the findings of its report.

A study is one row of the corpus: image id and caption id are the number of its report, and its file names all its views
in the order of the report's XML (see `recap.data.corpus.VIEWS`).
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from recap.core.atomic import atomic_path, write_text
from recap.core.config import IuXrayDataset
from recap.core.errors import DataError
from recap.core.log import progress, say
from recap.core.manifests import sha256_file, value_hash
from recap.data.corpus import SPLITS, VIEWS, Caption
from recap.data.images import MAX_BYTES
from recap.data.iu_reports import Report, read_reports
from recap.data.iu_split import Study, annotated, drawn
from recap.data.medical_text import tokenize_report
from recap.data.members import members, stem

_PICTURES = (".png", ".jpg", ".jpeg")


def read_iu_xray(spec: IuXrayDataset, *, inputs: Path, out: Path) -> tuple[list[Caption], str]:
    """Return the captions of all studies and the hash of their source; write the pictures and what became of each report.

    Into ``out`` go ``images.zip`` (the pictures in use, byte by byte as they came), ``studies.csv`` (every report, its
    split or why it is left out, its pictures and views) and ``counts.md`` (the same, counted), which is also printed.

    Raises:
        DataError: an archive, report or annotation is missing or broken, or more than ``max_missing`` studies lack a
            picture.
    """
    reports = read_reports(inputs / spec.reports)
    whole = {uid: report for uid, report in reports.items() if report.findings and len(report.pictures) >= spec.views}
    named = annotated(inputs / spec.annotations, reports) if spec.annotations else None
    wanted = {picture for study in named or whole.values() for picture in study.pictures}
    files = pack_pictures([inputs / images for images in spec.images], wanted, out / "images.zip")
    if named is None:
        incomplete = {uid: _absent(report.pictures[: spec.views], files) for uid, report in whole.items()}
        chosen = drawn([r for r in whole.values() if not incomplete[r.uid]], views=spec.views, seed=spec.split_seed)
    else:
        incomplete = {study.uid: _absent(study.pictures, files) for study in named}
        chosen = [study for study in named if not incomplete[study.uid]]
    lacking = {uid: pictures for uid, pictures in incomplete.items() if pictures}
    _report_missing(lacking, spec)
    views = _projections(inputs / spec.projections) if spec.projections else {}
    reasons = {uid: _reason(report, lacking, spec) for uid, report in reports.items()}
    _write_studies(out / "studies.csv", reports, chosen, reasons, views)
    lines = count_lines(reports, chosen, reasons=reasons, views=views)
    write_text(out / "counts.md", "".join(f"- {line}\n" for line in lines))
    for line in lines:
        say(f"iu_xray: {line}")
    for split in SPLITS:
        if not any(study.split == split for study in chosen):
            raise DataError(f"iu_xray: the split {split!r} has no studies; train, val and test each need some")
    hashed = [inputs / file for file in (spec.annotations,) if file]
    return [_caption(study, files) for study in chosen], value_hash(
        [[sha256_file(path) for path in hashed], sorted((r.uid, r.findings, r.pictures) for r in reports.values())]
    )


def pack_pictures(sources: Sequence[Path], wanted: Iterable[str], out: Path) -> dict[str, str]:
    """Copy the wanted pictures of folders, zips and tgz's into one zip; return the file name of each found, by stem.

    Raises:
        DataError: a source is damaged, or two pictures share a name.
    """
    names = set(wanted)
    files: dict[str, str] = {}
    with atomic_path(out) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for source in sources:
            found = members(
                source,
                wanted=lambda name: name.lower().endswith(_PICTURES) and stem(name) in names,
                max_bytes=MAX_BYTES,
            )
            for name, content in progress(found, name=source.name, unit="pictures", total=len(names)):
                file = name.rsplit("/", 1)[-1]
                if stem(name) in files:
                    raise DataError(f"{source}: there are two pictures {stem(name)}; remove one of them")
                files[stem(name)] = file
                archive.writestr(zipfile.ZipInfo(file), content)  # a date of its own would change the bytes
    return files


def count_lines(
    reports: Mapping[str, Report], studies: Sequence[Study], *, reasons: Mapping[str, str], views: Mapping[str, str]
) -> list[str]:
    """Return sentences that lead from all reports and pictures to the studies in use."""
    chosen = {study.uid for study in studies}
    left = Counter(reasons[uid] or "not in the annotation" for uid in reports if uid not in chosen)
    splits = Counter(study.split for study in studies)
    referred = sum(len(report.pictures) for report in reports.values())
    used = sum(len(study.pictures) for study in studies)
    lines = [f"{len(reports):,} reports refer to {referred:,} pictures"]
    lines += [f"{count:,} reports left out: {_kind(reason)}" for reason, count in _grouped(left).items()]
    lines += [f"{uid} left out: {reasons[uid]}" for uid in reports if reasons[uid].startswith("no picture")]
    parts = ", ".join(f"{splits[split]:,} {split}" for split in SPLITS)
    lines.append(f"{len(studies):,} studies in use ({parts}), with {used:,} of the {referred:,} pictures")
    if views:
        pairs = Counter(" and ".join(views.get(name, "unknown") for name in study.pictures) for study in studies)
        lines.append("views: " + ", ".join(f"{count:,} {pair}" for pair, count in pairs.most_common()))
    return lines


def _kind(reason: str) -> str:
    return "a picture of theirs is missing" if reason.startswith("no picture") else reason


def _grouped(left: Counter[str]) -> Counter[str]:
    grouped: Counter[str] = Counter()
    for reason, count in left.items():
        grouped[_kind(reason)] += count
    return grouped


def _absent(pictures: Iterable[str], files: Mapping[str, str]) -> list[str]:
    return [picture for picture in pictures if picture not in files]


def _reason(report: Report, lacking: Mapping[str, list[str]], spec: IuXrayDataset) -> str:
    """Say why a report cannot be used; nothing if it can."""
    if report.uid in lacking:
        return f"no picture {', '.join(lacking[report.uid])} in the images"
    if not report.findings:
        return "no findings"
    return f"findings, but fewer than {spec.views} pictures" if len(report.pictures) < spec.views else ""


def _report_missing(lacking: Mapping[str, list[str]], spec: IuXrayDataset) -> None:
    """Refuse a set of images that lacks more than a few studies."""
    if len(lacking) > spec.max_missing:
        uid, pictures = next(iter(lacking.items()))
        raise DataError(
            f"{', '.join(spec.images)}: {len(lacking)} studies lack a picture (the first is {uid}: {pictures[0]}), more "
            f"than max_missing = {spec.max_missing}; complete the images, or raise max_missing to go on without them"
        )


def _projections(path: Path) -> dict[str, str]:
    """Return 'frontal' or 'lateral' of each picture, by its name without suffix."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return {"CXR" + row["filename"].split(".", 1)[0]: row["projection"].strip().lower() for row in rows}
    except (OSError, UnicodeDecodeError, csv.Error, KeyError, AttributeError, TypeError) as error:
        raise DataError(f"{path}: no table with the columns filename and projection ({error!r}); fetch it") from error


def _write_studies(
    path: Path,
    reports: Mapping[str, Report],
    studies: Sequence[Study],
    reasons: Mapping[str, str],
    views: Mapping[str, str],
) -> None:
    """Write a line a report: what became of it."""
    chosen = {study.uid: study for study in studies}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["report", "split", "left_out", "pictures", "views"])
    for uid, report in reports.items():
        study = chosen.get(uid)
        pictures = study.pictures if study else report.pictures
        why = "" if study else reasons[uid] or "not in the annotation"
        kinds = VIEWS.join(views.get(picture, "unknown") for picture in pictures)
        writer.writerow([uid, study.split if study else "", why, VIEWS.join(pictures), kinds])
    write_text(path, text.getvalue())


def _caption(study: Study, files: Mapping[str, str]) -> Caption:
    number = int(study.uid.removeprefix("CXR"))
    words = tokenize_report(study.findings)
    if not words:
        raise DataError(f"iu_xray: the findings of {study.uid} hold no word ({study.findings!r}); remove the study")
    file = VIEWS.join(files[picture] for picture in study.pictures)
    return Caption(number, file, study.split, number, study.findings, words)
