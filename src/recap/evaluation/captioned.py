"""A trained model with its own captions of images, on the CPU, for figures and scores of what happens inside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from recap.data.vocabulary.words import AnyVocabulary, load_vocabulary
from recap.evaluation.decode import decode_images
from recap.models.base import Captioner
from recap.runs.inputs import FeatureSources
from recap.runs.saved import load_model
from recap.settings.decoding import DecodingSettings

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


def caption_images(
    *, run: Path, features: Sequence[Path], vocabulary: Path, image_ids: Sequence[int], beam: int, name: str
) -> CaptionedImages:
    """Load a trained model and caption images.

    Args:
        run: the run folder.
        features: the feature stores that training saw.
        vocabulary: the vocabulary of the training.
        image_ids: images to caption.
        beam: of the search.
        name: for the progress line.

    Raises:
        RecapError: a file does not fit.
    """
    model, sources, vocab = opened(run=run, features=features, vocabulary=vocabulary)
    settings = DecodingSettings(beam=beam, max_length=MAX_LENGTH, batch_size=BATCH)
    captions = decode_images(model, sources, image_ids, settings, device=torch.device("cpu"), name=name)
    return CaptionedImages(model, sources, vocab, captions)


def opened(*, run: Path, features: Sequence[Path], vocabulary: Path) -> tuple[Captioner, FeatureSources, AnyVocabulary]:
    """Return a trained model, what it reads, and its vocabulary; see `caption_images`."""
    vocab, sources = load_vocabulary(vocabulary), FeatureSources(features)
    inputs = sources.input_spec(vocab)
    model = load_model(run, inputs).eval()
    sources.choose([model], inputs)
    return model, sources, vocab
