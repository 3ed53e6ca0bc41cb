"""A trained run that says what is in photos.

import recap

captioner = recap.load("results/demo")
captioner("photo.jpg")
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from recap.captioning.photo_features import MadeImages, PhotoFeatures
from recap.captioning.pictures import Photo, name_of, read_photo
from recap.captioning.run_files import RunFiles
from recap.core.errors import DataError, RecapError, TrainingError
from recap.core.log import without_progress
from recap.decoding.step import NonFiniteLogits
from recap.evaluation.decode import Candidate, caption_text, decode_candidates, ending_ids
from recap.features.prefetch import prefetch
from recap.models.images import Images
from recap.runs.saved import load_model
from recap.settings.features import GridFeatures
from recap.settings.params import validate
from recap.settings.recipes import DecodingSettings

if TYPE_CHECKING:
    from PIL.Image import Image

Together: TypeAlias = Photo | tuple[Photo, ...]
"""A photo, or several views of one thing (an X-ray study) as a tuple, which get one caption."""

BATCH_SIZE = 8  # photos encoded and decoded at a time
_SPEAKS_OF = "image id"  # what features call a photo, by its place in the batch


@dataclass(frozen=True)
class Caption:
    """A caption that beam search found.

    Attributes:
        text: the words.
        log_probability: natural logarithm of its probability, the end of the caption included.
        score: what it was ranked by: the log-probability divided by length ** length_penalty.
    """

    text: str
    log_probability: float
    score: float


@dataclass(frozen=True)
class PhotoCaptions:
    """The captions of a photo, best first.

    Attributes:
        photo: its path, or what it was called where it had none.
        captions: one or more.
    """

    photo: str
    captions: tuple[Caption, ...]

    @property
    def caption(self) -> str:
        """The words of the best."""
        return self.captions[0].text

    @property
    def log_probability(self) -> float:
        """The log-probability of the best."""
        return self.captions[0].log_probability


@dataclass(frozen=True)
class FailedPhoto:
    """A photo without a caption, and the sentence that says why, which begins with its path."""

    photo: str
    reason: str


class PhotoCaptioner:
    """A trained run, ready for photos; `recap.load` makes one.

    Attributes:
        name: label, seed and stage of the run.
        run: its folder.
        decoding: how captions are searched unless a call says otherwise: as the run's test captions were.
        views: pictures that make one example in the run's data: 2 for studies of two X-rays, else 1.
        device: where it computes.
        vocabulary, features, model: its words, what makes its features, its network.
    """

    def __init__(self, files: RunFiles, device: torch.device) -> None:
        """Load the model and what makes its features.

        Raises:
            RecapError: see `load`.
        """
        self.name, self.run, self.decoding, self.device = files.name, files.run, files.decoding, device
        self.vocabulary = files.vocabulary
        self.features = PhotoFeatures(files.extractors, files.vocabulary, device)
        self.model = load_model(files.run, self.features.inputs).to(device).eval()
        first = files.extractors[0]
        self.views = first.rows // first.settings.grid**2 if isinstance(first.settings, GridFeatures) else 1

    def __call__(self, photo: Together) -> str:
        """Return the caption of a photo.

        Args:
            photo: a path, a picture of Pillow, an array uint8 [height, width, 3]; or a tuple of views.

        Raises:
            DataError: it is missing, or cannot be read as a picture.
        """
        return self.captions([photo])[0].caption

    def captions(
        self, photos: Iterable[Together], *, beam: int | None = None, n_best: int = 1, batch_size: int = BATCH_SIZE
    ) -> list[PhotoCaptions]:
        """Return the captions of photos, in their order.

        Args:
            photos: as a call takes them.
            beam: width of the search; None: that of the run's test captions.
            n_best: captions a photo, at most `beam`.
            batch_size: photos computed at a time; it changes memory and time alone.

        Raises:
            DataError: a photo is missing, or cannot be read as a picture.
            ConfigError: `n_best` is larger than the beam, or a number is not positive.
        """
        found = []
        for result in self.stream(photos, beam=beam, n_best=n_best, batch_size=batch_size):
            if isinstance(result, FailedPhoto):
                raise DataError(result.reason)
            found.append(result)
        return found

    def stream(
        self, photos: Iterable[Together], *, beam: int | None = None, n_best: int = 1, batch_size: int = BATCH_SIZE
    ) -> Generator[PhotoCaptions | FailedPhoto]:
        """Yield the captions of photos as they are found, in their order; those without a caption say why.

        Memory holds a few batches, however many photos there are. Arguments and other errors as of `captions`.
        """
        if min(batch_size, n_best) < 1:
            raise DataError("batch_size and n_best: must be 1 or more")
        asked = {"n_best": n_best, "batch_size": batch_size, **({} if beam is None else {"beam": beam})}
        settings = validate(DecodingSettings, {**self.decoding.model_dump(), **asked}, "captions")
        with closing(prefetch(self._read(batch) for batch in _batches(photos, batch_size))) as reading:
            for parts in reading:
                yield from self._search(parts, settings)

    def _read(self, batch: Sequence[tuple[int, Together]]) -> list[_Part]:
        """Read the photos of a batch and make their features."""
        failed: dict[int, FailedPhoto] = {}
        names: list[str] = []
        read: dict[int, Sequence[Image]] = {}
        for place, (number, photo) in enumerate(batch):
            views = photo if isinstance(photo, tuple) else (photo,)
            labels = [name_of(view, number) for view in views]
            names.append(" + ".join(labels) or f"tuple {number}")
            try:
                if not views:
                    raise DataError(f"{names[place]}: holds no photo; give one or more")
                read[place] = [read_photo(view, label) for view, label in zip(views, labels, strict=True)]
            except RecapError as error:
                failed[place] = FailedPhoto(names[place], str(error))
        try:
            images = self.features.read(list(read.values()), self.model) if read else None
        except RecapError as error:
            if len(read) > 1:  # one photo has no features: each by itself
                return [part for item in batch for part in self._read([item])]
            (place,) = read
            reason = str(error).replace(f"{_SPEAKS_OF} 0", names[place])
            failed[place], images = FailedPhoto(names[place], reason), None
        return [_Part(names, failed, images)]

    def _search(self, parts: list[_Part], settings: DecodingSettings) -> Iterator[PhotoCaptions | FailedPhoto]:
        vocabulary, endings = self.vocabulary, ending_ids(settings.rules, self.vocabulary)
        for part in parts:
            found: Iterator[list[Candidate]] = iter(())
            if part.images is not None:
                try:
                    with without_progress():
                        decoded = decode_candidates(
                            self.model,
                            MadeImages(part.images),
                            range(len(part.images)),
                            settings,
                            endings,
                            device=self.device,
                            name=self.name,
                        )
                    found = iter(decoded.values())
                except NonFiniteLogits as error:
                    raise TrainingError(f"{self.run}: {error}, train it again") from error
            for place, name in enumerate(part.names):
                if place in part.failed:
                    yield part.failed[place]
                else:
                    captions = (
                        Caption(caption_text(vocabulary, best.tokens, settings), best.log_probability, best.score)
                        for best in next(found)[: settings.n_best]
                    )
                    yield PhotoCaptions(name, tuple(captions))


@dataclass(frozen=True)
class _Part:
    """Photos that were read together: their names, those that failed by place, the features of the others."""

    names: list[str]
    failed: dict[int, FailedPhoto]
    images: Images | None


def _batches(photos: Iterable[Together], size: int) -> Iterator[list[tuple[int, Together]]]:
    """Yield numbered photos, from 1, in batches."""
    numbered: Iterator[Any] = iter(enumerate(photos, start=1))
    while batch := list(islice(numbered, size)):
        yield batch
