"""What a subset leaves over, with pictures and captions no longer paired (Kim et al., EMNLP-IJCNLP 2019).

Kim et al. train on 1 % of COCO's images with their captions and use the rest as unpaired pictures and captions. Their
lists of ids are not published; our reading: 1 % of Karpathy's training images, 1,133, drawn by
seed, with all their captions (``params/subsets/image_1.yaml``), and everything else of the training split unpaired.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recap.core import checksums
from recap.core.documents import write_json
from recap.core.errors import DataError
from recap.core.hashing import value_hash
from recap.core.log import log
from recap.data.corpus.corpus import Corpus
from recap.data.subsets.ranking import rank
from recap.data.subsets.subsample import read_subset


def write_unpaired(*, corpus: Path, subset: Path, out: Path) -> dict[str, Any]:
    """Write the training pictures and captions outside a subset of whole images.

    Captions come in the order of a hash of their ids, so that their places say nothing of their pictures.

    Args:
        corpus: the corpus that the subset was drawn from.
        subset: a subset with unit 'image'.
        out: JSON with dataset, subset (its hash), image_ids, caption_ids, hash.
    """
    source, drawn = Corpus.read(corpus), read_subset(subset)
    if drawn["dataset"] != source.dataset or drawn["unit"] != "image":
        raise DataError(f"{subset}: must be a subset of {source.dataset!r} drawn by image; draw it again")
    # Raises for ids that the corpus does not hold.
    source.image_ids_of(drawn["caption_ids"])
    images = sorted(set(source.image_ids("train")) - set(drawn["image_ids"]))
    captions = sorted(set(source.caption_ids("train")) - set(drawn["caption_ids"]))
    if not images:
        raise DataError(f"{subset}: holds all training images, nothing is left unpaired; draw a smaller fraction")
    shuffled = rank(captions, dataset=source.dataset, unit="unpaired", seed=drawn["seed"])
    values: dict[str, Any] = {"dataset": source.dataset, "subset": drawn["hash"], "image_ids": images}
    values["caption_ids"] = shuffled
    values["hash"] = value_hash(values)
    write_json(out, values)
    checksums.record(out)
    log.info(
        f"{source.dataset}: {len(drawn['image_ids']):,} images with {len(drawn['caption_ids']):,} captions paired; "
        f"{len(images):,} images and {len(captions):,} captions unpaired"
    )
    return values
