"""Captions of test images with the gates of VisualGPT behind each of their words, from a trained model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch.nn.utils.rnn import pad_sequence

from recap.core.seeding import generator
from recap.data.corpus.corpus import Corpus
from recap.data.vocabulary.words import BOS, PAD
from recap.evaluation.captioned import BATCH, caption_images
from recap.papers.visualgpt.gates_figure import CaptionGates, write_gates
from recap.papers.visualgpt.visual_gates import visual_gates


def write_gates_figures(
    *,
    corpus: Path,
    vocabulary: Path,
    features: Sequence[Path],
    image_roots: Sequence[Path],
    run: Path,
    beam: int,
    count: int,
    heading: str,
    out: Path,
    name: str,
) -> None:
    """Caption all test images with a run and draw the gates behind the words.

    Args:
        corpus, vocabulary: files of the data set.
        features: the feature stores that training saw.
        image_roots: folders or zips with the images.
        run: the run folder.
        beam: of the search.
        count: captions that are shown beside their images, the same on every call.
        heading: text above the figures.
        out: folder of the figures.
        name: begins the names of the files.

    Raises:
        RecapError: a file does not fit, or the model has no gates.
    """
    table = Corpus.read(corpus)
    images = sorted(table.captions("test"))
    captions = list(captions_with_gates(run=run, features=features, vocabulary=vocabulary, image_ids=images, beam=beam))
    drawn = generator(0, "gates").choice(len(captions), size=min(count, len(captions)), replace=False).tolist()
    write_gates(
        captions=captions,
        shown=[captions[index] for index in drawn],
        files=table.files(),
        image_roots=image_roots,
        heading=heading,
        out=out,
        name=name,
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
