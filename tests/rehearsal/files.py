"""Which miniature stands for which outside file."""

from __future__ import annotations

import csv
import fnmatch
import io
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from recap.core.errors import ConfigError
from recap.core.files import atomic_path, write_text
from recap.core.hashing import sha256_file
from rehearsal import coco, hub, regions, web, xrays
from rehearsal.world import World

# Name in the list of outside files, or a pattern of it -> what writes the miniature.
_WRITERS: dict[str, Callable[[World, Path], None]] = {
    "coco/train2014.zip": partial(coco.write_pictures, "train2014"),
    "coco/val2014.zip": partial(coco.write_pictures, "val2014"),
    "coco/test2014.zip": partial(coco.write_pictures, "test2014"),
    "coco/annotations_trainval2014.zip": coco.write_annotations,
    "coco/image_info_test2014.zip": partial(coco.write_image_info, "test2014"),
    "coco/karpathy_val_images.txt": partial(coco.write_karpathy_list, "val"),
    "coco/karpathy_test_images.txt": partial(coco.write_karpathy_list, "test"),
    "karpathy/caption_datasets.zip": coco.write_caption_datasets,
    "conceptual/GCC-training.tsv": web.write_training,
    "conceptual/GCC-1.1.0-Validation.tsv": web.write_validation,
    "wikitext/wikitext-2-v1.zip": web.write_articles,
    "iu_xray/NLMCXR_png.tgz": xrays.write_pictures,
    "iu_xray/NLMCXR_reports.tgz": xrays.write_reports,
    "iu_xray/annotation.json": xrays.write_annotation,
    "iu_xray/indiana_projections.csv": xrays.write_projections,
    "bottom_up/trainval.zip": partial(regions.write_bottom_up, None),
    "bottom_up/trainval_36.zip": partial(regions.write_bottom_up, 36),
    "bottom_up/test2014.zip": regions.write_bottom_up_test,
    "bottom_up/*.pkl": regions.write_detector_pickle,
    "grid_feats/X-101-features.tgz": regions.write_grid_feats,
    "grid_feats/*.pth": regions.write_detector_checkpoint,
    "panoptic/*.pkl": regions.write_detector_pickle,
    "*/coco_detections.hdf5": regions.write_detections,
    "oscar/coco_caption.zip": regions.write_caption_pack,
    "vinvl/features.lineidx": regions.write_vinvl_index,
    "vinvl/features.tsv": regions.write_vinvl,
}


def write_outside_file(name: str, world: World, folder: Path) -> Path:
    """Write the miniature of a file of the list below a folder,
    unless it is there, and return its path."""
    writer = next(
        (write for pattern, write in _WRITERS.items() if fnmatch.fnmatchcase(name, pattern)), None
    )
    if writer is None:
        raise ConfigError(
            f"{name}: a rehearsal has no miniature of this file; add one to "
            "tests/rehearsal/files.py"
        )
    path = folder / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as part:
            writer(world, part)
    return path


def write_repository(name: str, folder: Path, gpt2: hub.Gpt2Sizes | None) -> None:
    """Write the miniature of a repository of the hub,
    ``OWNER/NAME``, below a folder, unless it is there."""
    owner, _, backbone = name.partition("/")
    if (folder / name / "config.json").exists():  # written last
        return
    if owner == "timm":
        hub.write_timm(backbone, folder / name)
    elif backbone == "gpt2" and gpt2 is not None:
        hub.write_gpt2(folder / name, gpt2)
    else:
        raise ConfigError(
            f"hub:{name}: a rehearsal has no miniature of this repository; add one to "
            "tests/rehearsal"
        )


def write_list(source: Path, out: Path, *, served: Mapping[str, Path], url: str) -> None:
    """Write a list of outside files whose addresses are on this machine;
    files that are not served have no line.

    Hashes and sizes are those of the miniatures where the list has any, so that the first fetch
    records the others.
    """
    with source.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        rows, columns = list(reader), reader.fieldnames or ()
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    elsewhere = {row["name"] for row in rows if row["url"] and row["name"] not in served}
    addresses: Counter[str] = Counter()
    for row in rows:
        miniature = served.get(row["name"])
        if miniature is None and not {row["name"], row.get("archive")} & elsewhere:
            writer.writerow(row)
        elif miniature is not None:
            place = f"mirror{addresses[row['name']]}/" if addresses[row["name"]] else ""
            addresses[row["name"]] += 1
            known = {"algorithm": "sha256", "hash": sha256_file(miniature)} if row["hash"] else {}
            size = {"bytes": miniature.stat().st_size} if row["bytes"] else {}
            writer.writerow({**row, "url": f"{url}/{place}{row['name']}", **known, **size})
    write_text(out, text.getvalue())
