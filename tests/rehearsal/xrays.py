"""Files of IU X-ray: a tgz of PNG, a tgz of XML, the annotation of Chen et al., the projections."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rehearsal.archives import write_tgz
from rehearsal.world import World, picture, report

_SIZE = (80, 64)


def names(number: int, views: int = 2) -> list[str]:
    """Return the names of a study's pictures without suffix, in the order of its XML."""
    return [f"CXR{number}_IM-{number:04d}-{view}001" for view in range(1, views + 1)]


def xml(number: int, findings: str, pictures: Sequence[str] | None = None) -> str:
    """Return the XML of a report."""
    images = "".join(
        f'<parentImage id="{name}"><figureId>F1</figureId><caption>Chest</caption></parentImage>'
        for name in (names(number) if pictures is None else pictures)
    )
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<eCitation><meta type="rr"/><uId '
        f'id="CXR{number}"/>'
        f"<MedlineCitation><Article><Abstract>\n"
        f'<AbstractText Label="COMPARISON">None.</AbstractText><AbstractText Label="INDICATION"/>'
        f'<AbstractText Label="FINDINGS">{findings}</AbstractText>'
        f'<AbstractText Label="IMPRESSION">Normal.</AbstractText>\n'
        f"</Abstract></Article></MedlineCitation>{images}</eCitation>\n"
    )


def annotation(findings: Mapping[str, Mapping[int, str]]) -> dict[str, list[dict[str, Any]]]:
    """Return the content of ``annotation.json``: split -> number of a study -> its text."""
    return {
        split: [_entry(number, split, text) for number, text in each.items()]
        for split, each in findings.items()
    }


def _entry(number: int, split: str, text: str) -> dict[str, Any]:
    study = f"CXR{number}_IM-{number:04d}"
    return {
        "id": study,
        "report": text,
        "image_path": [f"{study}/0.png", f"{study}/1.png"],
        "split": split,
    }


def projections(pictures: Iterable[str], path: Path) -> None:
    """Write ``indiana_projections.csv``; the first picture of a study is its frontal view."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["uid", "filename", "projection"])
        for name in pictures:
            uid, view = name[3:].split("_")[0], "Frontal" if name.endswith("-1001") else "Lateral"
            writer.writerow([uid, f"{name[3:]}.dcm.png", view])


def _splits(world: World) -> dict[str, range]:
    """Return the numbers of the studies of each split."""
    val, test = world.studies + 1, world.studies + world.held_out + 1
    return {
        "train": range(1, val),
        "val": range(val, test),
        "test": range(test, test + world.held_out),
    }


def _studies(world: World) -> list[int]:
    return [number for numbers in _splits(world).values() for number in numbers]


def write_pictures(world: World, path: Path) -> None:
    """Write ``NLMCXR_png.tgz``: gray pictures, in no folder."""
    numbered = enumerate(name for number in _studies(world) for name in names(number))
    write_tgz(
        path,
        {f"{name}.png": picture(place, _SIZE, kind="PNG", gray=True) for place, name in numbered},
    )


def write_reports(world: World, path: Path) -> None:
    """Write ``NLMCXR_reports.tgz``: ``ecgen-radiology/<number>.xml``."""
    write_tgz(
        path,
        {
            f"ecgen-radiology/{number}.xml": xml(number, report(number))
            for number in _studies(world)
        },
    )


def write_annotation(world: World, path: Path) -> None:
    """Write ``annotation.json``."""
    texts = {
        split: {number: report(number) for number in numbers}
        for split, numbers in _splits(world).items()
    }
    path.write_text(json.dumps(annotation(texts)))


def write_projections(world: World, path: Path) -> None:
    """Write ``indiana_projections.csv``."""
    projections((name for number in _studies(world) for name in names(number)), path)
