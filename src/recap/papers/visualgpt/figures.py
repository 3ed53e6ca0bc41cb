"""VisualGPT's figure: captions of test images with the gates behind each of their words, from a trained model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence

from recap.core.seeding import generator
from recap.data.corpus.corpus import Corpus
from recap.data.vocabulary.words import BOS, PAD
from recap.evaluation.captioned import BATCH, caption_images
from recap.evaluation.figure import DrawnModels
from recap.papers.visualgpt.figure_settings import GatesFigure
from recap.papers.visualgpt.gates_figure import CaptionGates, write_gates
from recap.papers.visualgpt.visual_gates import visual_gates


def draw_gates(figure: GatesFigure, models: DrawnModels, files: Mapping[str, Path]) -> None:
    """Caption all test images with a model and draw the gates behind the words.

    Raises:
        RecapError: a file does not fit, or the model has no gates.
    """
    ((label, run),) = models.runs.items()
    corpus = Corpus.read(models.corpus)
    captions = list(
        captions_with_gates(
            run=run,
            features=models.features,
            vocabulary=models.vocabulary,
            image_ids=sorted(corpus.captions("test")),
            beam=figure.beam,
        )
    )
    drawn = generator(0, "gates").choice(len(captions), size=min(figure.count, len(captions)), replace=False).tolist()
    write_gates(
        captions=captions,
        shown=[captions[index] for index in drawn],
        files=corpus.files(),
        image_roots=models.image_roots,
        heading="  |  ".join(filter(None, [f"Gates of {label}, first seed", models.heading])),
        out=files,
    )


def captions_with_gates(
    *, run: Path, features: Sequence[Path], vocabulary: Path, image_ids: Sequence[int], beam: int
) -> Iterator[CaptionGates]:
    """Yield a trained model's captions of images with both gates of every layer, on the CPU.

    Args:
        run: the run folder.
        features: the feature stores that training saw.
        vocabulary: the vocabulary of the training.
        image_ids: images to caption.
        beam: of the search.

    Raises:
        RecapError: a file does not fit, or the model has no gates.
    """
    found = caption_images(
        run=run, features=features, vocabulary=vocabulary, image_ids=image_ids, beam=beam, name="captions"
    )
    for start in range(0, len(image_ids), BATCH):
        chosen = image_ids[start : start + BATCH]
        tokens = pad_sequence([torch.tensor([BOS, *found.captions[image]]) for image in chosen], True, PAD)[:, None]
        with torch.no_grad():
            memory = found.model.encode(found.sources.read(chosen))
        visual, language = (gates[:, :, 0] for gates in visual_gates(found.model, tokens, memory))  # each [L, B, T]
        for index, image in enumerate(chosen):
            words = found.words(image)
            yield CaptionGates(
                image,
                words,
                visual[:, index, : len(words)].T.tolist(),
                language[:, index, : len(words)].T.tolist(),
            )
