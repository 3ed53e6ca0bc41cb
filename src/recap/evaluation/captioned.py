"""A trained model with its own captions of images, on the CPU, for figures and scores of what happens inside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from recap.data.vocabulary import AnyVocabulary
from recap.evaluation.decode import best, decode_candidates
from recap.evaluation.figure import DrawnModels
from recap.models.base import Captioner
from recap.runs.inputs import FeatureSources
from recap.runs.saved import open_runs
from recap.settings.recipes import DecodingSettings

MAX_LENGTH = 20  # tokens of a caption
BATCH = 50  # images decoded at a time


@dataclass(frozen=True)
class CaptionedImages:
    """A trained model, what it reads, and its captions: image id -> token ids without <bos> and <eos>."""

    model: Captioner
    sources: FeatureSources
    vocabulary: AnyVocabulary
    captions: dict[int, list[int]]

    def words(self, image: int) -> list[str]:
        """Return the words of an image's caption, one per token."""
        return [self.vocabulary.decode([token]) for token in self.captions[image]]


def caption_images(models: DrawnModels, label: str, image_ids: Sequence[int], *, beam: int) -> CaptionedImages:
    """Load one of a figure's models and caption images."""
    model, sources, vocab = open_runs([models.runs[label]], vocabulary=models.vocabulary, features=models.features)
    settings = DecodingSettings(beam=beam, max_length=MAX_LENGTH, batch_size=BATCH)
    found = decode_candidates(model, sources, image_ids, settings, device=torch.device("cpu"), name=label)
    return CaptionedImages(model, sources, vocab, best(found))
