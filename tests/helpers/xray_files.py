"""A few studies in the layout of IU X-ray: a tgz of PNG, a tgz of XML, the annotation, the projections."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from rehearsal import xrays
from rehearsal.archives import write_tgz as tgz

FINDINGS = "The heart is normal in size. No pleural effusion. XXXX 2.5 cm nodule; the lungs are clear."
SPEC = {
    "kind": "iu_xray",
    "reports": "NLMCXR_reports.tgz",
    "images": ["NLMCXR_png.tgz"],
    "annotations": "annotation.json",
    "projections": "indiana_projections.csv",
    "vocabulary": {"min_count": 1, "splits": "train", "max_length": 60},
}
# uid -> number of pictures; 21 has no findings, 20 too few pictures, 22 none.
STUDIES = {**dict.fromkeys(range(1, 11), 2), 12: 3, 20: 1, 21: 2, 22: 0}


def png(number: int, *, size: tuple[int, int] = (32, 24)) -> bytes:
    """Return a grey PNG whose brightness depends on ``number``."""
    content = io.BytesIO()
    Image.new("L", size, number * 37 % 256).save(content, format="PNG")
    return content.getvalue()


def names(uid: int) -> list[str]:
    """Return the names of a study's pictures without suffix, in the order of its XML."""
    return [f"CXR{uid}_IM-{uid:04d}-{view}001" for view in range(1, STUDIES[uid] + 1)]


def report(uid: int, *, findings: str | None = None, pictures: list[str] | None = None) -> str:
    """Return the XML of one report."""
    text = ("" if uid == 21 else f"{FINDINGS} Study {uid}.") if findings is None else findings
    return xrays.xml(uid, text, names(uid) if pictures is None else pictures)


def annotation() -> dict[str, list[dict[str, Any]]]:
    """Return six studies to train on, two to validate and two to test; CXR10 stands in no split."""
    uids = {"train": [3, 1, 2, 4, 5, 12], "val": [6, 7], "test": [8, 9]}
    return {
        split: [xrays.entry(uid, split, f"{FINDINGS} Study {uid}.") for uid in some] for split, some in uids.items()
    }


def write_iu_xray(
    folder: Path,
    *,
    reports: Callable[[dict[str, bytes]], object] | None = None,
    images: Callable[[dict[str, bytes]], object] | None = None,
    annotated: Callable[[dict[str, Any]], object] | None = None,
) -> Path:
    """Write the four files into ``folder`` and return it; each part may be spoilt before it is written."""
    folder.mkdir(parents=True, exist_ok=True)
    xml = {f"ecgen-radiology/{uid}.xml": report(uid).encode() for uid in STUDIES}
    pictures = [name for uid in STUDIES for name in names(uid)]
    pngs = {f"{name}.png": png(number) for number, name in enumerate(pictures)}
    content = annotation()
    for change, values in ((reports, xml), (images, pngs), (annotated, content)):
        if change is not None:
            change(values)
    tgz(folder / SPEC["reports"], xml)
    tgz(folder / SPEC["images"][0], pngs)
    (folder / "annotation.json").write_text(json.dumps(content))
    with (folder / "indiana_projections.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["uid", "filename", "projection"])
        for name in pictures:
            kind = "Frontal" if name.endswith("-1001") else "Lateral"
            writer.writerow([name[3:].split("_")[0], f"{name[3:]}.dcm.png", kind])
    return folder
