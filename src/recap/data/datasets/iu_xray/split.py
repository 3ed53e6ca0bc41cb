"""Which studies of IU X-ray are used, and in which split: from the annotation of Chen et al., or drawn by a seed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from recap.core.documents import read_json
from recap.core.errors import DataError, RecapError
from recap.core.hashing import generator
from recap.data.corpus.corpus import SPLITS
from recap.data.datasets.iu_xray.reports import Report
from recap.data.vocabulary.text import is_storable

_ID = re.compile(r"(CXR\d+)_\S+")


@dataclass(frozen=True)
class Study:
    """One example: the report's uid, its split, its text and its pictures' names without suffix."""

    uid: str
    split: str
    findings: str
    pictures: tuple[str, ...]


def annotated(path: Path, reports: Mapping[str, Report]) -> list[Study]:
    """Return the studies that an annotation names, in its order.

    The form is ``{"train": [{"id": "CXR2384_IM-0942", "report": ..., "image_path": ["CXR2384_IM-0942/0.png", ...]}]}``:
    the id starts with the report's uid, and ``k.png`` is picture k in the order of the report's XML.
    """
    try:
        content = read_json(path)
    except RecapError as error:
        raise DataError(str(error)) from error
    if not isinstance(content, dict) or not all(isinstance(content.get(split), list) for split in SPLITS):
        raise DataError(f"{path}: no lists under 'train', 'val' and 'test'; is this the annotation of Chen et al.?")
    studies: list[Study] = []
    splits: dict[str, str] = {}
    for split in SPLITS:
        for entry in content[split]:
            study = _entry(entry, split, reports, path)
            if study.uid in splits:
                raise DataError(
                    f"{path}: {study.uid} is duplicated (in {splits[study.uid]!r} and {split!r}); list it once"
                )
            splits[study.uid] = split
            studies.append(study)
    return studies


def drawn(studies: Sequence[Study], *, seed: int) -> list[Study]:
    """Give studies a split, 7 : 1 : 2 at random, the same on every machine and for every order of the studies.

    Train and val are rounded up, which gives 2,069 / 296 / 590 for the 2,955 studies that Chen et al. kept.
    """
    ordered = sorted(studies, key=lambda study: study.uid)
    train, val = -(-7 * len(ordered) // 10), -(-len(ordered) // 10)
    places = generator(seed, "iu_xray", "split").permutation(len(ordered)).tolist()
    splits = ["train" if place < train else "val" if place < train + val else "test" for place in places]
    return [replace(study, split=split) for study, split in zip(ordered, splits, strict=True)]


def _entry(entry: Any, split: str, reports: Mapping[str, Report], path: Path) -> Study:
    name = entry.get("id") if isinstance(entry, dict) else None
    match = _ID.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        raise DataError(f"{path}: {split!r} holds an entry with the id {name!r}; ids are like 'CXR2384_IM-0942'")
    report = reports.get(match[1])
    if report is None:
        raise DataError(f"{path}: names the study {name}, but there is no report {match[1]}; fetch all reports")
    text, files = entry.get("report"), entry.get("image_path")
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"{path}: the study {name} has no text under 'report'; add it or remove the study")
    if not is_storable(text):
        raise DataError(f"{path}: the study {name} has half of a surrogate pair under 'report'; correct it")
    if not isinstance(files, list) or not files or not all(isinstance(file, str) for file in files):
        raise DataError(f"{path}: the study {name} has no pictures under 'image_path'; add some or remove the study")
    return Study(report.uid, split, text, tuple(_picture(file, report, f"{path}: the study {name}") for file in files))


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
