"""A submission to the COCO caption server: captions of all of val2014 and test2014 in one zip.

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

from recap.core.errors import DataError
from recap.core.files.atomic import atomic_path
from recap.core.files.checksums import check
from recap.core.files.json_files import read_json

SIZES = {"val2014": 40504, "test2014": 40775}
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # equal captions give equal bytes


def write_submission(
    *,
    captions: Mapping[str, Sequence[Path]],
    algorithm: str,
    out: Path,
    sizes: Mapping[str, int] = SIZES,
) -> Path:
    """Write the zip of a submission.

    Args:
        captions: set (val2014, test2014) -> files in COCO's results form, which together hold every image once
            (Karpathy's split cuts val2014 into three).
        algorithm: name of the submission: letters, digits, - and _.
        out: the zip.
        sizes: images of each set.

    Raises:
        DataError: a set is incomplete, an image has two captions, a caption is empty, or a file has another form.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]+", algorithm):
        raise DataError(f"algorithm {algorithm!r}: the server takes letters, digits, - and _ only")
    results = {name: _results(name, captions.get(name, ()), size) for name, size in sizes.items()}
    with atomic_path(out) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, entries in results.items():
            info = zipfile.ZipInfo(f"captions_{name}_{algorithm}_results.json", _LONG_AGO)
            archive.writestr(info, json.dumps(entries), zipfile.ZIP_DEFLATED)
    return out


def _results(name: str, files: Sequence[Path], size: int) -> list[dict[str, Any]]:
    """Read the captions of one set, sorted by image."""
    entries = [entry for file in files for entry in _entries(file)]
    twice = [image for image, count in Counter(entry["image_id"] for entry in entries).items() if count > 1]
    if twice:
        raise DataError(f"{name}: image {twice[0]} has several captions; give each image in one file alone")
    if len(entries) != size:
        raise DataError(
            f"{name}: {len(entries)} captions, but the server wants one for each of its {size} images; "
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
