"""What a trained run looked at in a photo for each word of its caption, as one page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from recap.core.errors import DataError
from recap.core.files import write_text
from recap.core.log import log
from recap.data.vocabulary import BOS
from recap.evaluation.decode import caption_text
from recap.evaluation.figures import vector_boxes
from recap.models.explained import Note, explained
from recap.runs.folder import run_model_config
from recap.share.captioner import PhotoCaptioner
from recap.share.photos import Photo, name_of, read_photo
from recap.tables.contact_sheet import Box, jpeg_address, shaded
from recap.tables.formats import filled
from recap.tables.text import plain

if TYPE_CHECKING:
    from PIL.Image import Image

_EDGE, _QUALITY = 180, 85  # pixels of a picture's longer edge; of its JPEG


@dataclass(frozen=True)
class Explanation:
    """A photo (its path, or what it was called), its caption,
    and what the run looked at for each of T words."""

    photo: str
    picture: Image  # upright, in RGB
    caption: str
    words: list[str]  # T; pieces of words where the vocabulary has pieces
    boxes: list[Box]  # of the N vectors: left, top, right, bottom as fractions of the picture
    # [T, N], the attention behind each word, averaged over heads and layers
    weights: list[list[float]]
    notes: list[Note]  # what else is known, such as gates or clusters


def explain(captioner: PhotoCaptioner, photo: Photo) -> Explanation:
    """Return what a run looked at in one photo."""
    name = name_of(photo, 1)
    picture = read_photo(photo, name)
    model, vocabulary = captioner.model, captioner.vocabulary
    images = captioner.features.read([[picture]], model)
    boxes = vector_boxes(images.main, name)
    tokens = captioner.decode(images, captioner.decoding)[0][0].tokens
    words = [vocabulary.decode([token]) for token in tokens]
    caption = torch.tensor([[[BOS, *tokens]]], device=captioner.device)
    kind = run_model_config(captioner.run).kind
    maps, notes = explained(kind, model, images.to(captioner.device), caption, words)
    weights = maps[:, : len(boxes)].tolist()
    # a model may read the first vectors alone
    boxes = boxes[: len(weights[0])] if weights else boxes
    text = caption_text(vocabulary, tokens, captioner.decoding)
    return Explanation(name, picture, text, words, boxes, weights, notes)


def explained_photos(captioner: PhotoCaptioner, photos: Iterable[Photo]) -> Iterator[Explanation]:
    """Yield what a run looked at in each photo; one that cannot be read is named and left out."""
    for photo in photos:
        try:
            yield explain(captioner, photo)
        except DataError as error:
            log.error(f"not explained: {error}")


def write_explanations(explanations: Iterable[Explanation], run: str, out: Path) -> None:
    """Write a page with the photo under each word of its caption, bright where the run looked.

    All in one file.
    """
    sections = []
    for each in explanations:
        scale = _EDGE / max(each.picture.size)
        size = [max(1, round(scale * edge)) for edge in each.picture.size]
        small = each.picture.resize(size)
        looked_at = []
        for weights in each.weights:
            looked_at.append(jpeg_address(shaded(small, each.boxes, weights), _QUALITY))
        sections.append((each, jpeg_address(small, _QUALITY), looked_at))
    page = filled("explained.html", "recap.share", run=run, sections=sections, plain=plain)
    write_text(out, page)
