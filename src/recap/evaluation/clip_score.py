"""CLIPScore and RefCLIPScore: how near captions are to the picture,
and to the references, in CLIP's space.

Hessel et al. 2021, "CLIPScore: A Reference-free Evaluation Metric for Image Captioning". With a
caption c, the references R of its image and the picture v, each encoded by CLIP, and texts after
the words "A photo depicts":

    CLIPScore(c, v) = 2.5 max(cos(c, v), 0)
    RefCLIPScore(c, R, v) = harmonic mean of CLIPScore(c, v) and max(max_{r in R} cos(c, r), 0)

The paper takes CLIP's ViT-B/32. recap has no weights: ``RECAP_CLIP`` names a folder of a CLIP in
transformers' form.
"""

from __future__ import annotations

import os
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from recap.core.errors import MetricError, first_line
from recap.core.hashing import sha256_file
from recap.core.log import progress
from recap.data.corpus import CORPUS, Corpus, pictures_of
from recap.data.files.images import read_photo
from recap.metrics.base import Captions, Metric, Result
from recap.settings.datasets import PICTURES

if TYPE_CHECKING:
    from collections.abc import Callable

    from PIL.Image import Image
    from torch import Tensor

FOLDER, IMAGES = "RECAP_CLIP", "RECAP_CLIP_IMAGES"
TENSORS = "model.safetensors"
WEIGHT = 2.5  # w of the paper
PROMPT = "A photo depicts "
_BATCH = 32  # images at a time


class ClipScore(Metric):
    """Mean of each score; pictures are those given,
    else of ``RECAP_CLIP_IMAGES``, else those beside the corpus."""

    names: ClassVar[tuple[str, ...]] = ("CLIPScore", "RefCLIPScore")
    needs: ClassVar[frozenset[Literal["java", "pictures"]]] = frozenset({"pictures"})

    _sha256 = ""  # of the weights, once they are read

    def version(self) -> dict[str, str]:
        """Return the beginning of the sha256 of the weights; others' scores do not compare."""
        return {"clip": self._sha256[:8]}

    def score(self, captions: Captions) -> Result:
        """Return both scores."""
        folder = os.environ.get(FOLDER)
        if not folder or not (Path(folder) / TENSORS).is_file():
            lack = f"is {folder}, which has no {TENSORS}" if folder else "is not set"
            where = (
                f"a folder with config.json, {TENSORS}, the tokenizer and preprocessor_config.json"
            )
            raise MetricError(f"CLIPScore needs a CLIP, and {FOLDER} {lack}; set it to {where}")
        clip = Clip(Path(folder))
        picture = captions.pictures or _pictures(captions)
        self._sha256 = clip.sha256
        per_image: dict[str, dict[int, float]] = {name: {} for name in self.names}
        for first in progress(
            range(0, len(captions.ids), _BATCH), name="CLIPScore", unit="batches"
        ):
            ids = captions.ids[first : first + _BATCH]
            texts = [[captions.hypotheses[image], *captions.references[image]] for image in ids]
            pictures, words = clip.encode([picture(image) for image in ids], sum(texts, []))
            of_images = words.split([len(each) for each in texts])
            for image, seen, own in zip(ids, pictures, of_images, strict=True):
                score = WEIGHT * max(float(own[0] @ seen), 0.0)
                nearest = max(float((own[1:] @ own[0]).max()), 0.0)
                both = score + nearest
                per_image["CLIPScore"][image] = score
                per_image["RefCLIPScore"][image] = 2 * score * nearest / both if both else 0.0
        return Result(
            {name: fmean(values.values()) for name, values in per_image.items()}, per_image
        )


class Clip:
    """Both towers of a CLIP, from a folder with its configuration,
    tensors (safetensors alone), tokenizer and sizes."""

    def __init__(self, folder: Path) -> None:
        from recap.features.backbones import ensure_torchvision

        ensure_torchvision()
        try:
            from transformers import CLIPImageProcessor, CLIPModel, CLIPTokenizer
            from transformers.utils import logging
        except ImportError as error:
            raise MetricError(
                "CLIPScore needs transformers; install it with: pip install 'recap-captions[clip]'"
            ) from error

        logging.disable_progress_bar()
        own: dict[str, Any] = {"local_files_only": True}
        # its annotation leaves out that it returns a pair here
        read: Any = CLIPModel.from_pretrained
        try:
            model, loaded = read(folder, use_safetensors=True, output_loading_info=True, **own)
            self.processor = CLIPImageProcessor.from_pretrained(folder, **own)
            self.tokenizer = CLIPTokenizer.from_pretrained(folder, **own)
            if missing := sorted(loaded["missing_keys"]):
                raise ValueError(f"{TENSORS} has no tensor {missing[0]!r}")
        except Exception as error:  # whatever transformers raises for files of another form
            what = f"holds no CLIP that transformers reads ({first_line(error)})"
            raise MetricError(f"{folder}: {what}; fetch the whole folder again") from error
        from recap.core.device import select_device  # which imports torch

        self.device = select_device("auto")
        self.model = model.eval().to(self.device)
        self.sha256 = sha256_file(folder / TENSORS)

    def encode(self, pictures: list[Image], texts: list[str]) -> tuple[Tensor, Tensor]:
        """Return unit vectors of pictures [B, D] and of texts [T, D], cut to the model's input."""
        import torch

        most = self.model.config.text_config.max_position_embeddings
        words = self.tokenizer(
            [PROMPT + text for text in texts],
            padding=True,
            truncation=True,
            max_length=most,
            return_tensors="pt",
        )
        pixels = self.processor(images=pictures, return_tensors="pt")
        with torch.inference_mode():
            out = self.model(**words.to(self.device), **pixels.to(self.device))
        unit = torch.nn.functional.normalize
        return unit(out.image_embeds, dim=-1).cpu(), unit(out.text_embeds, dim=-1).cpu()


def _pictures(captions: Captions) -> Callable[[int], Image]:
    """Return what opens the picture of an image; several views stand side by side."""
    corpus = captions.product(CORPUS)
    roots = [Path(name) for name in os.environ.get(IMAGES, "").split(os.pathsep) if name] or [
        corpus.parent / PICTURES
    ]
    if not any(root.exists() for root in roots):
        raise MetricError(
            f"{roots[0]}: no pictures; set {IMAGES} to folders or zips, {os.pathsep!r} between"
        )
    source = pictures_of(corpus, roots)
    files = Corpus.read(corpus).files()
    return lambda image: read_photo(source, files[image])
