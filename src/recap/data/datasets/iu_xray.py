"""IU X-ray: studies of the Indiana University collection, each with its views and the findings of its report.

A study is one row of the corpus: image id and caption id are the number of its report, and its file names all its
views in the order of the report's XML (see `recap.data.corpus.corpus_file.VIEWS`). Hostile XML is refused. Into the
folder of the data set go ``images.zip`` (the pictures in use, byte by byte as they came), ``studies.csv`` (every
report: its split or why it is left out, its pictures and views) and ``counts.md`` (the same, counted).
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import Field

from recap.core.documents import read_json
from recap.core.errors import DamagedData, DataError, RecapError
from recap.core.files import atomic_path, write_text
from recap.core.hashing import generator, sha256_file, value_hash
from recap.core.log import log, progress
from recap.data.corpus.corpus import SPLITS, VIEWS, Caption, need_splits
from recap.data.datasets.base import Built, Entry, String, parsed, warn_of_part
from recap.data.files.archives import contents
from recap.data.files.images import MAX_BYTES
from recap.data.vocabulary.text import tokenize
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


_REPORT_BYTES = 2**20  # real reports have 4 to 12 KB


@dataclass(frozen=True)
class Report:
    """One report: ``uid`` (CXR1), the text of its findings, and its pictures' names without suffix, in XML order."""

    uid: str
    findings: str
    pictures: tuple[str, ...]

    @property
    def number(self) -> int:
        """The number in the uid, which names the study everywhere after: CXR2384 -> 2384."""
        return int(self.uid.removeprefix("CXR"))


def read_reports(path: Path) -> dict[str, Report]:
    """Read all reports of a tgz, zip or folder of XML files, by uid and in the order of their numbers."""
    reports: dict[str, Report] = {}
    for name, content in contents(path, wanted=lambda name: name.endswith(".xml"), max_bytes=_REPORT_BYTES):
        report = parse_report(content, f"{path}: {name}")
        if report.uid in reports:
            raise DataError(f"{path}: {name}: the report {report.uid} is duplicated; remove one of them")
        reports[report.uid] = report
    if not reports:
        raise DataError(f"{path}: no XML reports in it; is this NLMCXR_reports.tgz?")
    return dict(sorted(reports.items(), key=lambda item: item[1].number))


def parse_report(content: bytes, where: str) -> Report:
    """Parse one report."""
    from xml.etree.ElementTree import ParseError

    from defusedxml.common import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    try:
        root = fromstring(content, forbid_dtd=True)
    except DefusedXmlException as error:
        raise DataError(f"{where}: declares a document type or entities, which reports never do; remove it") from error
    except (ParseError, ValueError, LookupError) as error:
        raise DamagedData(f"{where}: not valid XML ({error}); fetch it again") from error
    marker = root.find("uId")
    uid = "" if marker is None else marker.get("id", "")
    digits = uid.removeprefix("CXR")
    if not (uid.startswith("CXR") and digits.isascii() and digits.isdigit() and len(digits) < 10):
        raise DataError(f"{where}: no report of the collection (its uId is {uid!r}, not like 'CXR1'); remove it")
    sections = {section.get("Label"): section.text or "" for section in root.iter("AbstractText")}
    pictures = tuple(picture.get("id", "") for picture in root.iter("parentImage"))
    unsafe = [picture for picture in pictures if not picture or set(picture) & set('/\\|\0"')]
    if unsafe or len(set(pictures)) < len(pictures):
        raise DataError(f"{where}: the pictures {', '.join(map(repr, pictures))} are not distinct names; correct them")
    return Report(uid, " ".join(sections.get("FINDINGS", "").split()), pictures)


@dataclass(frozen=True)
class Study:
    """One example: the report's uid, its split, its text and its pictures' names without suffix."""

    uid: str
    split: str
    findings: str
    pictures: tuple[str, ...]


class AnnotatedStudy(Entry):
    """A study of the annotation: its id starts with the report's uid, and ``k.png`` is picture k of the report."""

    id: Annotated[String, Field(pattern=r"^CXR\d+_\S+$")]
    report: Annotated[String, Field(pattern=r"\S")]
    image_path: Annotated[list[String], Field(min_length=1)]


class Annotation(Entry):
    """The annotation of Chen et al."""

    train: list[AnnotatedStudy]
    val: list[AnnotatedStudy]
    test: list[AnnotatedStudy]


def annotated(path: Path, reports: Mapping[str, Report]) -> list[Study]:
    """Return the studies that an annotation names, in its order."""
    try:
        content = read_json(path)
    except RecapError as error:
        raise DataError(str(error)) from error
    annotation = parsed(Annotation, content, str(path))
    studies: dict[str, Study] = {}
    for split in SPLITS:
        for entry in getattr(annotation, split):
            report = reports.get(entry.id.partition("_")[0])
            if report is None:
                raise DataError(f"{path}: names the study {entry.id}, of which there is no report; fetch all reports")
            if report.uid in studies:
                first = studies[report.uid].split
                raise DataError(f"{path}: {report.uid} is duplicated (in {first!r} and {split!r}); list it once")
            pictures = tuple(_picture(file, report, f"{path}: the study {entry.id}") for file in entry.image_path)
            studies[report.uid] = Study(report.uid, split, entry.report, pictures)
    return list(studies.values())


def drawn(studies: Sequence[Study], *, seed: int) -> list[Study]:
    """Give studies a split, 7 : 1 : 2 at random, the same on every machine and for every order of the studies.

    Train and val are rounded up, which gives 2,069 / 296 / 590 for the 2,955 studies that Chen et al. kept.
    """
    ordered = sorted(studies, key=lambda study: study.uid)
    train, val = -(-7 * len(ordered) // 10), -(-len(ordered) // 10)
    places = generator(seed, "iu_xray", "split").permutation(len(ordered)).tolist()
    splits = ["train" if place < train else "val" if place < train + val else "test" for place in places]
    return [replace(study, split=split) for study, split in zip(ordered, splits, strict=True)]


def _picture(file: str, report: Report, where: str) -> str:
    """Return the name of picture k of a report for ``<study>/k.png``."""
    number = PurePosixPath(file).stem
    if not (number.isascii() and number.isdigit() and len(number) < 10):
        raise DataError(f"{where}: {file!r} is not like 'CXR2384_IM-0942/0.png', the number counting views from 0")
    if int(number) >= len(report.pictures):
        raise DataError(
            f"{where}: asks for view {number}, but its report {report.uid} refers to {len(report.pictures)} pictures, "
            "counted from 0; correct the annotation"
        )
    return report.pictures[int(number)]


# "1. Lungs clear. 2. ..." and "1) ...": numbers that count the sentences say nothing of the picture.
_COUNTING = re.compile(r"(?:(?<=^)|(?<=[.:;?!]\s))\d{1,2}[.)]\s+(?=\D)")
_END = re.compile(r"[.?!]+(?=\s|$)")
_DECIMAL = re.compile(r"\d+(?:\.\d+)+")
STOP = "."


def tokenize_report(report: str) -> list[str]:
    """Return the lower-case words of a report, with ``.`` as a separate word at the end of each sentence.

    Numbers that count sentences are dropped, decimal numbers stay whole (``2.5``), all other punctuation parts words
    and vanishes, and the collection's ``XXXX`` for what was blacked out stays as ``xxxx``. A model can so learn where
    a sentence ends; the scorers remove the stops again.
    """
    words: list[str] = []
    for sentence in _END.split(_COUNTING.sub("", " ".join(report.split()))):
        found = _words(sentence)
        if found:
            words += [*found, STOP]
    return words


def _words(sentence: str) -> list[str]:
    words: list[str] = []
    start = 0
    for number in _DECIMAL.finditer(sentence):
        words += [*tokenize(sentence[start : number.start()]), number.group()]
        start = number.end()
    return words + tokenize(sentence[start:])


def left_out(
    reports: Mapping[str, Report], studies: Sequence[Study], *, lacking: Mapping[str, list[str]], views: int
) -> dict[str, tuple[str, str]]:
    """Return of every report that is not used, by uid, the reason and what it lacks.

    ``lacking`` are missing pictures of studies that were left out for them; a study needs so many ``views``.
    """
    used = {study.uid for study in studies}
    return {uid: _reason(report, lacking.get(uid, []), views) for uid, report in reports.items() if uid not in used}


def _reason(report: Report, lacking: list[str], views: int) -> tuple[str, str]:
    if lacking:
        return "a picture is missing from the images", ", ".join(lacking)
    if not report.findings:
        return "no findings", ""
    if len(report.pictures) < views:
        return f"findings, but fewer than {views} pictures", ""
    return "not in the annotation", ""


def count_lines(
    reports: Mapping[str, Report],
    studies: Sequence[Study],
    *,
    named: Sequence[Study],
    reasons: Mapping[str, tuple[str, str]],
    views: Mapping[str, str],
) -> list[str]:
    """Return sentences that lead from all reports and pictures, and the studies named, to the studies in use."""
    referred = sum(len(report.pictures) for report in reports.values())
    lines = [f"{len(reports):,} reports refer to {referred:,} pictures"]
    if named:
        lines.append(f"the annotation names {len(named):,} studies ({_by_split(named)})")
    for reason, count in Counter(reason for reason, _ in reasons.values()).most_common():
        lines.append(f"{count:,} reports left out: {reason}")
    lines += [f"{uid} left out, no picture {lacks}" for uid, (_, lacks) in reasons.items() if lacks]
    used = sum(len(study.pictures) for study in studies)
    lines.append(f"{len(studies):,} studies in use ({_by_split(studies)}), with {used:,} of the {referred:,} pictures")
    if views:
        pairs = Counter(" and ".join(_kinds(study.pictures, views)) for study in studies)
        lines.append("views: " + ", ".join(f"{count:,} {pair}" for pair, count in pairs.most_common()))
    return lines


def write_studies(
    path: Path,
    reports: Mapping[str, Report],
    studies: Sequence[Study],
    *,
    reasons: Mapping[str, tuple[str, str]],
    views: Mapping[str, str],
) -> None:
    """Write a table with one line per report: its split or why it is left out, its pictures, frontal or lateral."""
    used = {study.uid: study for study in studies}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["report", "split", "left_out", "pictures", "views"])
    for uid, report in reports.items():
        pictures = used[uid].pictures if uid in used else report.pictures
        split, why = (used[uid].split, "") if uid in used else ("", ": ".join(filter(None, reasons[uid])))
        writer.writerow([uid, split, why, VIEWS.join(pictures), VIEWS.join(_kinds(pictures, views))])
    write_text(path, text.getvalue())


def _by_split(studies: Sequence[Study]) -> str:
    splits = Counter(study.split for study in studies)
    return ", ".join(f"{splits[split]:,} {split}" for split in SPLITS)


def _kinds(pictures: Sequence[str], views: Mapping[str, str]) -> list[str]:
    return [views.get(picture, "unknown") for picture in pictures]
