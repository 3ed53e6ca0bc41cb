"""Which miniature stands for which outside file."""

from __future__ import annotations

import csv
import fnmatch
import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recap.core.errors import ConfigError
from recap.core.files import atomic_path, write_text
from recap.core.hashing import sha256_file
from rehearsal import coco, detectors, hub, regions, web, xrays
from rehearsal.world import World

Write = Callable[[World, Path], None]

# Name in the list of outside files, or a pattern of it -> what writes the miniature.
_WRITERS: dict[str, Write] = {
    "coco/train2014.zip": lambda world, path: coco.write_pictures(world, "train2014", path),
    "coco/val2014.zip": lambda world, path: coco.write_pictures(world, "val2014", path),
    "coco/test2014.zip": lambda world, path: coco.write_pictures(world, "test2014", path),
    "coco/annotations_trainval2014.zip": coco.write_annotations,
    "coco/image_info_test2014.zip": lambda world, path: coco.write_image_info(world, "test2014", path),
    "coco/karpathy_val_images.txt": lambda world, path: coco.write_karpathy_list(world, "val", path),
    "coco/karpathy_test_images.txt": lambda world, path: coco.write_karpathy_list(world, "test", path),
    "karpathy/caption_datasets.zip": coco.write_caption_datasets,
    "conceptual/GCC-training.tsv": web.write_training,
    "conceptual/GCC-1.1.0-Validation.tsv": web.write_validation,
    "wikitext/wikitext-2-v1.zip": web.write_articles,
    "iu_xray/NLMCXR_png.tgz": xrays.write_pictures,
    "iu_xray/NLMCXR_reports.tgz": xrays.write_reports,
    "iu_xray/annotation.json": xrays.write_annotation,
    "iu_xray/indiana_projections.csv": xrays.write_projections,
    "bottom_up/trainval.zip": lambda world, path: regions.write_bottom_up(world, path, fixed=None),
    "bottom_up/trainval_36.zip": lambda world, path: regions.write_bottom_up(world, path, fixed=36),
    "bottom_up/test2014.zip": regions.write_bottom_up_test,
    "bottom_up/*.pkl": lambda world, path: detectors.write_pickle(path),
    "grid_feats/X-101-features.tgz": regions.write_grid_feats,
    "grid_feats/*.pth": lambda world, path: detectors.write_checkpoint(path),
    "panoptic/*.pkl": lambda world, path: detectors.write_pickle(path),
    "*/coco_detections.hdf5": regions.write_detections,
    "oscar/coco_caption.zip": regions.write_caption_pack,
    "vinvl/features.lineidx": lambda world, path: regions.write_vinvl_index(world.photos, path),
    "vinvl/features.tsv": lambda world, path: regions.write_vinvl(world.photos, path),
}


@dataclass(frozen=True)
class Gpt2Sizes:
    """Sizes of the small GPT-2 that models of a plan begin with."""

    width: int
    feed_forward: int
    layers: int
    positions: int


def write_outside_file(name: str, world: World, folder: Path) -> Path:
    """Write the miniature of an outside file below a folder, unless it is there, and return its path.

    Args:
        name: of the file in the list of outside files.
        world: whose pictures it is about.
        folder: that the name is relative to.
    """
    writer = next((write for pattern, write in _WRITERS.items() if fnmatch.fnmatchcase(name, pattern)), None)
    if writer is None:
        raise ConfigError(f"{name}: a rehearsal has no miniature of this file; add one to tests/rehearsal/files.py")
    path = folder / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as part:
            writer(world, part)
    return path


def write_repository(name: str, folder: Path, gpt2: Gpt2Sizes | None) -> None:
    """Write the miniature of a repository of the hub, unless it is there.

    Args:
        name: ``OWNER/NAME``; those of ``timm`` are networks, another one is GPT-2.
        folder: of all repositories.
        gpt2: sizes of that.
    """
    owner, _, backbone = name.partition("/")
    if (folder / name / "config.json").exists():  # written last
        return
    if owner == "timm":
        hub.write_timm(backbone, folder / name)
    elif backbone == "gpt2" and gpt2 is not None:
        hub.write_gpt2(folder / name, **vars(gpt2))
    else:
        raise ConfigError(f"hub:{name}: a rehearsal has no miniature of this repository; add one to tests/rehearsal")


def write_list(source: Path, out: Path, *, served: Mapping[str, Path], url: str) -> None:
    """Write a list of outside files whose addresses are on this machine.

    Nothing can be fetched from elsewhere: files that are not served have no line. Hashes and sizes are those of the
    miniatures where the list has any, so that the first fetch records the others.

    Args:
        source: the list of outside files.
        out: the copy.
        served: name -> miniature; its other addresses lead to the same.
        url: address of the server.
    """
    with source.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        rows: Sequence[dict[str, Any]] = list(reader)
        columns = reader.fieldnames or ()
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
