"""Scores captions from a file, made by any other program, as the captions of a run are scored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recap.core.hashing import value_hash
from recap.core.log import log
from recap.data.caption_files import read_captions
from recap.data.corpus import Corpus
from recap.metrics.scores import Scores, evaluate_captions
from recap.settings.metrics import FEW_IMAGES
from recap.settings.recipes import OutsideCaptions


def score_file(
    *, captions: Path, corpus: Path, split: str, metrics: Sequence[str], out: Path
) -> Scores:
    """Write what an evaluation writes of a file's captions.

    The signature has their hash in place of the search.
    """
    table = Corpus.read(corpus)
    hypotheses = read_captions(captions, table, split)
    if "CIDEr" in metrics and len(hypotheses) < FEW_IMAGES:
        log.warning(
            f"{captions}: CIDEr weighs words by how many of the scored images have them; of "
            f"{len(hypotheses)} images, fewer than {FEW_IMAGES}, its value means little"
        )
    return evaluate_captions(
        references=table.captions(split),
        hypotheses=hypotheses,
        metrics=metrics,
        split=split,
        split_hash=table.split_hash,
        decoding=OutsideCaptions(captions_sha256=value_hash(hypotheses)),
        out=out,
        dataset=corpus.parent,
    )
