"""A submission to COCO's caption server: captions of all of val2014 and test2014, as two files and as a zip of them.

The server takes `captions_val2014_<algorithm>_results.json` and `captions_test2014_<algorithm>_results.json`, each a
list of {"image_id", "caption"} with one caption per image, and scores the second against hidden references (c5, c40).
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recap.core.checksums import check, record
from recap.core.documents import read_json
from recap.core.errors import DataError
from recap.core.files import atomic_path, write_text
from recap.plan.submissions import results_name
from recap.settings.datasets import COCO_PARTS

_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # equal captions give equal bytes


def write_submission(
    *,
    captions: Mapping[str, Sequence[Path]],
    algorithm: str,
    out: Path,
    sizes: Mapping[str, int] | None = COCO_PARTS,
) -> Path:
    """Write the zip of a submission, and beside it the files that it holds.

    Args:
        captions: set (val2014, test2014) -> files in COCO's results form, which together hold every image once
            (Karpathy's split cuts val2014 into three).
        algorithm: name of the submission: letters, digits, - and _.
        out: the zip.
        sizes: images of each set; None: a part is meant, and the server would refuse it.

    Raises:
        DataError: a set is incomplete, an image has two captions, a caption is empty, or a file has another form.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]+", algorithm):
        raise DataError(f"algorithm {algorithm!r}: the server takes letters, digits, - and _ only")
    wanted = dict.fromkeys(COCO_PARTS) if sizes is None else sizes
    texts = {
        results_name(part, algorithm): json.dumps(_results(part, captions.get(part, ()), size))
        for part, size in wanted.items()
    }
    for name, text in texts.items():
        write_text(out.with_name(name), text)
    with atomic_path(out) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(zipfile.ZipInfo(name, _LONG_AGO), text, zipfile.ZIP_DEFLATED)
    record(out, *map(out.with_name, texts))
    return out


def _results(part: str, files: Sequence[Path], size: int | None) -> list[dict[str, Any]]:
    """Read the captions of one set, sorted by image."""
    entries = [entry for file in files for entry in _entries(file)]
    twice = [image for image, count in Counter(entry["image_id"] for entry in entries).items() if count > 1]
    if twice:
        raise DataError(f"{part}: image {twice[0]} has several captions; give each image in one file alone")
    if size is not None and len(entries) != size:
        raise DataError(
            f"{part}: {len(entries)} captions, but the server wants one for each of its {size} images; "
            "add the files that hold the others"
        )
    return sorted(entries, key=lambda entry: int(entry["image_id"]))


def _entries(file: Path) -> list[dict[str, Any]]:
    """Read one file of captions."""
    check(file)
    values = read_json(file)
    if not isinstance(values, list):
        raise DataError(f"{file}: expected a list of captions, as in captions.test.json")
    for value in values:
        if not isinstance(value, dict) or type(value.get("image_id")) is not int:
            raise DataError(f"{file}: an entry has no whole number as image_id; give COCO's results form")
        if not isinstance(value.get("caption"), str) or not value["caption"].strip():
            raise DataError(f"{file}: image {value['image_id']} has an empty caption, which the server refuses")
    return [{"image_id": value["image_id"], "caption": value["caption"]} for value in values]
