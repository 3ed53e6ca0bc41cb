"""The image ids that a submission to COCO's caption server must cover: 40,775 test and 40,504 validation pictures."""

from __future__ import annotations

from pathlib import Path

from recap.core.documents import write_json
from recap.core.hashing import value_hash
from recap.core.log import log
from recap.core.process import limited_memory
from recap.data.datasets.coco_pictures import check_size, read_listing


@limited_memory()
def write_server_ids(*, info: Path, annotations: Path, out: Path, partial: bool = False) -> dict[str, list[int]]:
    """Write the ids of test2014 and val2014, rising, and return them by split.

    Args:
        info: image_info_test2014.json, or the zip that holds it.
        annotations: captions_val2014.json, or the zip that holds it.
        out: JSON with test2014, val2014 and hash.
        partial: True allows other counts and says so.
    """
    files = {"test2014": (info, "image_info_test2014.json"), "val2014": (annotations, "captions_val2014.json")}
    ids = {part: list(read_listing(*file)) for part, file in files.items()}
    for part, numbers in ids.items():
        log.info(f"COCO server: {len(numbers):,} images of {part}")
        check_size(part, len(numbers), str(files[part][0]), partial=partial)
    write_json(out, {**ids, "hash": value_hash(ids)})
    return ids
