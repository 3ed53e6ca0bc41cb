"""VisualGPT's figure: captions of test images with the gates behind each of their words, from a trained model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from recap.core.errors import ConfigError, TrainingError
from recap.core.hashing import generator
from recap.data.byte_pairs import BytePairVocabulary
from recap.data.corpus import Corpus
from recap.data.vocabulary import BOS, PAD, UNK, AnyVocabulary
from recap.evaluation.figures import BATCH, DrawnModels, caption_images
from recap.models.base import Captioner
from recap.models.state import Memory
from recap.papers.visualgpt.figure_settings import GatesFigure
from recap.papers.visualgpt.gates_figure import CaptionGates, write_gates
from recap.papers.visualgpt.parts_figure import write_part_scores
from recap.papers.visualgpt.srau import SelfResurrecting


def draw_gates(figure: GatesFigure, models: DrawnModels, files: Mapping[str, Path]) -> None:
    """Caption all test images with a model and draw the gates behind the words."""
    (label,) = models.runs
    corpus = Corpus.read(models.corpus)
    captions = list(_captions_with_gates(models, label, sorted(corpus.captions("test")), figure.beam))
    if not any(caption.words for caption in captions):
        raise TrainingError(f"{models.runs[label]}: all its captions are empty, so no word has a gate; train it longer")
    drawn = generator(0, "gates").choice(len(captions), size=min(figure.count, len(captions)), replace=False).tolist()
    heading = "  |  ".join(filter(None, [f"Gates of {label}, first seed", models.heading]))
    write_part_scores(captions, printed=figure.printed, heading=heading, out=files)
    write_gates(
        captions=captions,
        shown=[captions[index] for index in drawn],
        files=corpus.files(),
        image_roots=models.image_roots,
        heading=heading,
        out=files,
    )


def _captions_with_gates(
    models: DrawnModels, label: str, image_ids: Sequence[int], beam: int
) -> Iterator[CaptionGates]:
    """Yield a model's captions of images with both gates of every layer."""
    found = caption_images(models, label, image_ids, beam=beam)
    for start in range(0, len(image_ids), BATCH):
        chosen = image_ids[start : start + BATCH]
        tokens = pad_sequence([torch.tensor([BOS, *found.captions[image]]) for image in chosen], True, PAD)[:, None]
        with torch.no_grad():
            memory = found.model.encode(found.sources.read(chosen))
        visual, language = (gates[:, :, 0] for gates in visual_gates(found.model, tokens, memory))  # each [L, B, T]
        for index, image in enumerate(chosen):
            pieces = pieces_of_words(found.vocabulary, found.captions[image])
            yield CaptionGates(
                image,
                [found.vocabulary.decode(found.captions[image][word]) for word in pieces],
                [visual[:, index, word].mean(1).tolist() for word in pieces],
                [language[:, index, word].mean(1).tolist() for word in pieces],
            )


def pieces_of_words(vocabulary: AnyVocabulary, tokens: Sequence[int]) -> list[slice]:
    """Return the tokens of each word of a caption: one, or several byte pairs."""
    starts = list(range(len(tokens)))
    if isinstance(vocabulary, BytePairVocabulary):
        begins = vocabulary.begins_word
        starts = [place for place in starts if place == 0 or begins[tokens[place]] or tokens[place] == UNK]
    return [slice(start, end) for start, end in pairwise([*starts, len(tokens)])]


@torch.no_grad()
def visual_gates(model: Captioner, tokens: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    """Return B_vis and B_lan under teacher forcing, each [layers, B, C, T]: means over the width and encoder levels.

    The paper's visual score of a word (section 5.6) is B_vis of the last layer. Tokens [B, C, T] begin with <bos>;
    entry t is the gate behind token t + 1.
    """
    gates = [module for module in model.modules() if isinstance(module, SelfResurrecting)]
    if not gates:
        raise ConfigError(f"{type(model).__name__} has no visual gates; take kind visual_gpt with fusion srau")
    visual: list[Tensor] = []
    language: list[Tensor] = []
    with ExitStack() as hooks:
        for gate in gates:
            for passed, means in ((gate.visual, visual), (gate.language, language)):
                hooks.enter_context(passed.register_forward_hook(_keep_means(means)))
        model.decode(tokens, memory)

    def per_layer(means: list[Tensor]) -> Tensor:  # a layer's gates are called once per level
        return torch.stack(means).unflatten(0, (len(gates), -1)).mean(1)

    return per_layer(visual), per_layer(language)


def _keep_means(means: list[Tensor]) -> Callable[..., None]:
    def hook(_module: object, _inputs: object, gate: Tensor) -> None:
        means.append(gate.mean(-1))

    return hook
