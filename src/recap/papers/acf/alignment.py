"""How well a model's words and patches find each other (ACF, section 4.1), in the paper's reading and in the code's.

    mutual_argmax       pairs of a patch and a word that are each other's best by D_v D_t^T, over min(N, T)
    late_interaction    (mean over patches of the best word's product + mean over words of the best patch's) / 2 / 0.07

D_v are the encoder's vectors, D_t those of the decoder before the output layer, each of the word that it predicts. The
paper does not say how it normalizes; min(N, T) is the largest count there can be. Both are means over images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from recap.core.documents import write_json
from recap.core.log import log
from recap.data.corpus import Corpus
from recap.data.vocabulary import BOS
from recap.evaluation.figures import DrawnModels, caption_images
from recap.nn.fast import fixed_weights
from recap.papers.acf.figure_settings import AlignmentFigure

_TEMPERATURE = 0.07  # of the released code


def mutual_argmax(patches: Tensor, words: Tensor) -> tuple[int, float]:
    """Return how many patches [N, D] and words [T, D] are each other's best, and that number over min(N, T)."""
    scores = patches @ words.T
    word_of_patch, patch_of_word = scores.argmax(1), scores.argmax(0)
    count = int((patch_of_word[word_of_patch] == torch.arange(len(patches))).sum())
    return count, count / min(scores.shape)


def late_interaction(patches: Tensor, words: Tensor) -> float:
    """Return the released code's score of patches [N, D] and words [T, D]."""
    scores = patches @ words.T
    return float((scores.amax(1).mean() + scores.amax(0).mean()) / 2 / _TEMPERATURE)


def score_alignment(figure: AlignmentFigure, models: DrawnModels, files: Mapping[str, Path]) -> None:
    """Caption a split with each model and write the mean scores of all as JSON."""
    ids = sorted(Corpus.read(models.corpus).captions(figure.split))
    scores = {}
    for label in models.runs:
        scores[label] = _mean_scores(models, label, ids, figure.beam)
        log.info(f"{label}: {scores[label]['mutual_argmax']:.4f} of the possible pairs over {len(ids)} images")
    write_json(files["alignment.json"], {"split": figure.split, "beam": figure.beam, "models": scores})


@torch.no_grad()
@fixed_weights()
def _mean_scores(models: DrawnModels, label: str, image_ids: Sequence[int], beam: int) -> dict[str, float]:
    """Return the mean scores of a model's captions of images."""
    found = caption_images(models, label, image_ids, beam=beam)
    counts, shares, late = [], [], []
    for image in image_ids:
        if not found.captions[image]:
            continue  # without words nothing is aligned; `images` says how many count
        memory = found.model.encode(found.sources.read([image]))
        words = found.model.decode(torch.tensor([[[BOS, *found.captions[image][:-1]]]]), memory)[0, 0]
        patches = memory.values[0][memory.mask[0]]
        count, share = mutual_argmax(patches, words)
        counts.append(count)
        shares.append(share)
        late.append(late_interaction(patches, words))
    images = max(1, len(counts))
    return {
        "images": len(counts),
        "mutual_pairs": sum(counts) / images,
        "mutual_argmax": sum(shares) / images,
        "late_interaction": sum(late) / images,
    }
