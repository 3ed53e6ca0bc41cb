"""Miniatures of IU X-ray: a tgz of PNG, a tgz of XML, the annotation of Chen et al., the projections."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rehearsal.archives import write_tgz
from rehearsal.world import World, picture, report

_VIEWS = ("Frontal", "Lateral")
_SIZE = (80, 64)


def splits(world: World) -> dict[str, list[int]]:
    """Return the numbers of the studies of each split."""
    found: dict[str, list[int]] = {}
    first = 1
    for split, count in (("train", world.studies), ("val", world.held_out), ("test", world.held_out)):
        found[split] = list(range(first, first + count))
        first += count
    return found


def studies(world: World) -> list[int]:
    """Return the numbers of all studies."""
    return [number for numbers in splits(world).values() for number in numbers]


def names(number: int) -> list[str]:
    """Return the names of a study's pictures without suffix, in the order of its XML."""
    return [f"CXR{number}_IM-{number:04d}-{view}001" for view in range(1, 1 + len(_VIEWS))]


def write_pictures(world: World, path: Path) -> None:
    """Write ``NLMCXR_png.tgz``: gray pictures, in no folder."""
    files = {}
    for number in studies(world):
        for view, name in enumerate(names(number)):
            files[f"{name}.png"] = picture(2 * number + view, _SIZE, kind="PNG", gray=True)
    write_tgz(path, files)


def write_reports(world: World, path: Path) -> None:
    """Write ``NLMCXR_reports.tgz``: ``ecgen-radiology/<number>.xml``."""
    write_tgz(path, {f"ecgen-radiology/{number}.xml": xml(number, report(number)) for number in studies(world)})


def xml(number: int, findings: str, pictures: Sequence[str] | None = None) -> str:
    """Return the XML of a report."""
    images = "".join(
        f'<parentImage id="{name}"><figureId>F1</figureId><caption>Chest</caption></parentImage>'
        for name in (names(number) if pictures is None else pictures)
    )
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n<eCitation><meta type="rr"/><uId id="CXR{number}"/>'
        f"<MedlineCitation><Article><Abstract>\n"
        f'<AbstractText Label="COMPARISON">None.</AbstractText><AbstractText Label="INDICATION"/>'
        f'<AbstractText Label="FINDINGS">{findings}</AbstractText>'
        f'<AbstractText Label="IMPRESSION">Normal.</AbstractText>\n'
        f"</Abstract></Article></MedlineCitation>{images}</eCitation>\n"
    )


def entry(number: int, split: str, text: str) -> dict[str, Any]:
    """Return one entry of the annotation."""
    study = f"CXR{number}_IM-{number:04d}"
    paths = [f"{study}/{view}.png" for view in range(len(_VIEWS))]
    return {"id": study, "report": text, "image_path": paths, "split": split}


def write_annotation(world: World, path: Path) -> None:
    """Write ``annotation.json``."""
    content = {
        split: [entry(number, split, report(number)) for number in numbers] for split, numbers in splits(world).items()
    }
    path.write_text(json.dumps(content))


def write_projections(world: World, path: Path) -> None:
    """Write ``indiana_projections.csv``."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["uid", "filename", "projection"])
        for number in studies(world):
            for name, view in zip(names(number), _VIEWS, strict=True):
                writer.writerow([number, f"{name.removeprefix('CXR')}.dcm.png", view])
