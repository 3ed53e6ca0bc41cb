"""A trained run that says what is in photos.

import recap

captioner = recap.load("results/demo")
captioner("photo.jpg")
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from recap.core.device import select_device
from recap.core.errors import ConfigError, DataError, FeatureError, RecapError, TrainingError
from recap.core.files import csv_text, no_formula
from recap.core.hashing import derived_seed
from recap.core.threads import prefetch
from recap.data.vocabulary import BANNED, BOS, EOS, PAD, AnyVocabulary
from recap.decoding.sampling import sample_one
from recap.decoding.step import DecodingBatch, NonFiniteLogits, with_banned_tokens
from recap.evaluation.decode import (
    Candidate,
    best_texts,
    caption_text,
    decode_candidates,
    ending_ids,
)
from recap.features.extraction import Encoder, make_encoder
from recap.features.grid import Backbone, ChannelScale
from recap.features.records import stored_arrays
from recap.models.base import Captioner
from recap.models.images import Images, InputSpec, Stream
from recap.nn.fast import fixed_weights
from recap.runs.folder import load_model
from recap.runs.inputs import BOXES
from recap.settings.base import HUB
from recap.settings.features import GridFeatures
from recap.settings.params import validate
from recap.settings.recipes import DecodingSettings
from recap.share.photos import Photo, name_of, read_photo
from recap.share.run_files import Extractor, RunFiles, fetch_run, find_run_files
from recap.tables.text import plain

if TYPE_CHECKING:
    from PIL.Image import Image

# A photo, or several views of one thing (an X-ray study) as a tuple, which get one caption.
Together: TypeAlias = Photo | tuple[Photo, ...]

BATCH_SIZE = 8  # photos encoded and decoded at a time
# What a photo's encoder may say otherwise:
# where its weights lie (their hash is compared), and what a GPU rounds.
_MAY_DIFFER = {"weights", "precision"}


def load(
    run: str | Path,
    *,
    device: str = "auto",
    vocabulary: str | Path | None = None,
    features: Sequence[str | Path] = (),
    weights: str | Path | None = None,
) -> PhotoCaptioner:
    """Return a trained run, ready for photos.

    Args:
        run: the folder of a run (`results/<profile>/runs/...`), or one above several runs of one
            data set, such as `results/demo`: the best on validation is taken; or what `recap export
            hub` wrote, a folder or its name on the hub, `hub:OWNER/NAME@REVISION`.
        device: auto (a GPU if there is one), cpu or cuda. vocabulary, features, weights: the run's
        vocabulary, its feature stores, and the weights of what made the
            features, where they do not lie in the results beside the run.
    """
    files = find_run_files(
        fetch_run(str(run)) if str(run).startswith(HUB) else Path(run),
        vocabulary=None if vocabulary is None else Path(vocabulary),
        features=list(map(Path, features)),
        weights=None if weights is None else Path(weights),
    )
    return PhotoCaptioner(files, select_device(device))


@dataclass(frozen=True)
class Caption:
    """A caption that beam search found, or that was sampled."""

    text: str
    # natural logarithm, the end of the caption included; of samples at temperature 1
    log_probability: float
    score: float  # what it was ranked by: the log-probability divided by length ** length_penalty


@dataclass(frozen=True)
class PhotoCaptions:
    """The captions of a photo (its path, or what it was called where it had none),
    best first or in order of draws."""

    photo: str
    captions: tuple[Caption, ...]
    sampled: bool = False

    @property
    def caption(self) -> str:
        """The words of the first."""
        return self.captions[0].text

    @property
    def log_probability(self) -> float:
        """The log-probability of the first."""
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
        decoding: how captions are searched unless a call says otherwise: as the run's test captions
        were.
        views: pictures that make one example in the run's data: 2 for studies of two X-rays, else
        1.
        device: where it computes.
        vocabulary, features, model: its words, what makes its features, its network.
    """

    def __init__(self, files: RunFiles, device: torch.device) -> None:
        self.name = files.name
        self.run = files.run
        self.decoding = files.decoding
        self.device = device
        self.vocabulary = files.vocabulary
        self.features = PhotoFeatures(files.extractors, files.vocabulary, device)
        self.model = load_model(files.run, self.features.inputs).to(device).eval()
        self.views = 1
        first = files.extractors[0]
        if isinstance(first.settings, GridFeatures):
            self.views = first.rows // first.settings.grid**2

    def __call__(self, photo: Together) -> str:
        """Return the caption of a photo, or of views
        (path, bytes, Pillow picture, array uint8 [height, width, 3])."""
        return self.captions([photo])[0].caption

    def captions(self, photos: Iterable[Together], **options: Any) -> list[PhotoCaptions]:
        """Return the captions of photos, in their order; options as of `stream`.

        A photo that is missing, or no picture, is a `DataError`.
        """
        captions = []
        for result in self.stream(photos, **options):
            if isinstance(result, FailedPhoto):
                raise DataError(result.reason)
            captions.append(result)
        return captions

    def stream(
        self,
        photos: Iterable[Together],
        *,
        beam: int | None = None,
        n_best: int = 1,
        sample: int | None = None,
        temperature: float = 1.0,
        seed: int = 0,
        batch_size: int = BATCH_SIZE,
    ) -> Generator[PhotoCaptions | FailedPhoto]:
        """Yield the captions of photos as they are found,
        in their order; those without a caption say why.

        Memory holds a few batches, however many photos there are.

        Args:
            photos: as a call takes them.
            beam: width of the search; None: that of the run's test captions.
            n_best: captions a photo, at most `beam`.
            sample: captions to draw for each photo, in place of a search.
            temperature: of samples; below 1 more peaked, above 1 flatter.
            seed: of samples; what is drawn for a photo also depends on the name of its file, but on
            no other photo.
            batch_size: photos computed at a time; it changes memory and time alone.
        """
        if n_best < 1:
            raise DataError("n_best: must be 1 or more")
        _check_samples(sample, temperature, seed, searched=beam is not None or n_best > 1)
        options = {"n_best": n_best, "batch_size": batch_size}
        if beam is not None:
            options["beam"] = beam
        settings = validate(DecodingSettings, {**self.decoding.model_dump(), **options}, "captions")
        with closing(prefetch(self._batches(photos, batch_size))) as reading:
            for batch in reading:
                captions = iter(self._captions(batch, settings, sample, temperature, seed))
                for name in batch.names:
                    if isinstance(name, FailedPhoto):
                        yield name
                    else:
                        yield PhotoCaptions(name, next(captions), sampled=sample is not None)

    def _captions(
        self,
        batch: _Batch,
        settings: DecodingSettings,
        sample: int | None,
        temperature: float,
        seed: int,
    ) -> list[tuple[Caption, ...]]:
        """Return the captions of each photo of a batch that was read."""
        if batch.images is None:
            return []
        try:
            if sample is None:
                found = self.decode(batch.images, settings)
            else:
                names = [name for name in batch.names if isinstance(name, str)]
                seeds = [derived_seed(seed, Path(name).name) for name in names]
                found = self.sample(
                    batch.images, settings, seeds, samples=sample, temperature=temperature
                )
        except NonFiniteLogits as error:
            raise TrainingError(f"{self.run}: {error}, train it again") from error
        captions = []
        for candidates in found:
            if sample is None:
                best = best_texts(self.vocabulary, candidates, settings)
                texts = list(best.items())
            else:  # a text may be drawn twice
                texts = [
                    (caption_text(self.vocabulary, each.tokens, settings), each)
                    for each in candidates
                ]
            captions.append(
                tuple(Caption(text, each.log_probability, each.score) for text, each in texts)
            )
        return captions

    def decode(self, images: Images, settings: DecodingSettings) -> list[list[Candidate]]:
        """Return the captions of each image, best first."""
        endings = ending_ids(settings.rules, self.vocabulary)
        ids = range(len(images))
        captions = decode_candidates(
            self.model, _ReadImages(images), ids, settings, endings, device=self.device, name=""
        )
        return list(captions.values())

    def sample(
        self, images: Images, settings: DecodingSettings, seeds: Sequence[int], **options: Any
    ) -> list[list[Candidate]]:
        """Return captions drawn for each image with a seed of its own, options as of `sample_one`.

        <unk> is banned.
        """
        batch = DecodingBatch(1, BOS, EOS, PAD, self.device)
        step = with_banned_tokens(self.model.step, BANNED)
        captions = []
        with fixed_weights():
            state = self.model.start(self.model.encode(images.to(self.device)))
            for row, seed in enumerate(seeds):
                alone = state.select(torch.tensor([row], device=self.device))
                tokens, sums = sample_one(
                    step, alone, batch, max_length=settings.max_length, seed=seed, **options
                )
                captions.append(list(map(Candidate, tokens.tolist(), sums.tolist(), sums.tolist())))
        return captions

    def _batches(self, photos: Iterable[Together], size: int) -> Iterator[_Batch]:
        """Yield photos as they are read, some at a time."""
        numbered = enumerate(photos, start=1)
        while batch := list(islice(numbered, size)):
            yield from self._read(batch)

    def _read(self, batch: Sequence[tuple[int, Together]]) -> Iterator[_Batch]:
        """Yield numbered photos together, or each by itself if the features of one fail."""
        names: list[str | FailedPhoto] = []
        pictures: list[Sequence[Image]] = []
        for number, photo in batch:
            views = photo if isinstance(photo, tuple) else (photo,)
            labels = [name_of(view, number) for view in views]
            name = " + ".join(labels) or f"tuple {number}"
            try:
                if not views:
                    raise DataError(f"{name}: holds no photo; give one or more")
                pictures.append(list(map(read_photo, views, labels)))
                names.append(name)
            except RecapError as error:
                names.append(FailedPhoto(name, str(error)))
        try:
            images = self.features.read(pictures, self.model) if pictures else None
        except RecapError as error:
            if len(batch) > 1:
                for item in batch:
                    yield from self._read([item])
            else:
                # What makes features calls a photo by its place in the batch.
                reason = str(error).replace("image id 0", name)
                yield _Batch([FailedPhoto(name, reason)], None)
        else:
            yield _Batch(names, images)


@dataclass(frozen=True)
class _Batch:
    """Photos that were read together."""

    names: Sequence[str | FailedPhoto]  # in their order
    images: Images | None  # features of those that did not fail; None: all did


def _check_samples(sample: int | None, temperature: float, seed: int, *, searched: bool) -> None:
    """Refuse options of samples without samples, and samples with options of a search."""
    if sample is None and (temperature, seed) != (1.0, 0):
        raise ConfigError("temperature and seed: are of captions that are drawn; give sample, too")
    if sample is not None and (sample < 1 or searched):
        raise ConfigError(
            "sample: draws 1 or more captions, without a search; leave out beam and n_best"
        )
    if not 0.001 <= temperature <= 1000:  # beyond, float32 has no log-probability / temperature
        raise ConfigError(f"temperature: is {temperature}; give a number from 0.001 to 1000")


class PhotoFeatures:
    """Makes the features that a model was trained on, rounded as they were stored.

    `inputs` is what it is told.
    """

    def __init__(
        self, extractors: Sequence[Extractor], vocabulary: AnyVocabulary, device: torch.device
    ) -> None:
        self._extractors = extractors
        self._encoders = [photo_encoder(extractor, device) for extractor in extractors]
        sizes: dict[str, int] = {}
        for extractor in extractors:
            sizes.update(extractor.sizes)
        self.inputs = InputSpec(sizes, len(vocabulary), vocabulary)

    def read(self, photos: Sequence[Sequence[Image]], model: Captioner) -> Images:
        """Return the features of photos, each given as its views in RGB, that a model reads, with
        boxes where there are any."""
        stored: list[dict[str, np.ndarray]] = [{} for _ in photos]
        sizes = np.zeros((len(photos), 2), np.int32)
        for extractor, encoder in zip(self._extractors, self._encoders, strict=True):
            items = (encoder.prepare(number, views) for number, views in enumerate(photos))
            for record in chain.from_iterable(map(encoder, encoder.batches(items))):
                stored[record.image_id] |= stored_arrays(
                    record,
                    dtype=extractor.settings.dtype,
                    streams=[name for name, _ in extractor.sizes],
                )
                sizes[record.image_id] = record.size
        streams = {}
        for name in self.inputs.sizes:
            if name in model.reads(self.inputs):
                values, mask = _padded([arrays[f"{name}/values"] for arrays in stored])
                streams[name] = Stream(values, mask)
                if f"{name}/{BOXES}" in stored[0]:
                    boxes, _ = _padded([arrays[f"{name}/{BOXES}"] for arrays in stored])
                    streams[name] = Stream(values, mask, boxes, torch.from_numpy(sizes).float())
        return Images(streams)


def photo_encoder(extractor: Extractor, device: torch.device) -> Encoder:
    """Return what makes a store's features for photos, checked to be what made the store."""
    settings = extractor.settings
    if settings.encoder is None:
        raise FeatureError(
            f"{extractor.store}: features of kind {settings.kind!r} cannot be made for a photo: "
            f"{settings.no_encoder}"
        )
    encoder = make_encoder(settings, weights=extractor.weights, device=device)
    if isinstance(encoder, Backbone) and encoder.spec.standardises():
        try:
            encoder.scale = ChannelScale.of_text(extractor.channel_scale or "")
        except (ValueError, KeyError, TypeError) as error:
            raise FeatureError(
                f"{extractor.store}: does not say by what its channels were standardized "
                f"({error}); make the features and the run again"
            ) from error
    name = str(extractor.weights or "weights_sha256")
    before = {**extractor.described, name: extractor.weights_sha256}
    now = {
        **json.loads(encoder.attributes["extractor"]),
        name: encoder.attributes["weights_sha256"],
    }
    for key in sorted({*before, *now} - _MAY_DIFFER):
        if before.get(key) != now.get(key):
            raise FeatureError(
                f"{extractor.store}: was made with {key} {before.get(key)!r}, and a photo would be "
                f"with {now.get(key)!r}; install the versions that it was made with, give its "
                "weights with --weights FILE, or make features and run again"
            )
    return encoder


def _padded(arrays: Sequence[np.ndarray]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return arrays [N, F] as float32 [B, most N, F], zero where the mask [B, most N] is False."""
    tensors = [torch.from_numpy(array.astype(np.float32)) for array in arrays]
    mask = [torch.ones(len(tensor), dtype=torch.bool) for tensor in tensors]
    pad = torch.nn.utils.rnn.pad_sequence
    return pad(tensors, batch_first=True), pad(mask, batch_first=True)


@dataclass(frozen=True)
class _ReadImages:
    """Features that are read already, as decoding asks for them, which does so once."""

    images: Images

    def read(self, image_ids: Sequence[int]) -> Images:
        return self.images


def pretty(results: Iterable[PhotoCaptions]) -> Iterator[str]:
    """Yield a line a photo; of several captions a line each, with its log-probability."""
    for result in results:
        if len(result.captions) == 1:
            yield f"{plain(result.photo)}: {plain(result.caption)}\n"
            continue
        yield f"{plain(result.photo)}:\n"
        yield from (
            f"{caption.log_probability:9.3f}  {plain(caption.text)}\n"
            for caption in result.captions
        )


def json_lines(results: Iterable[PhotoCaptions]) -> Iterator[str]:
    """Yield a JSON object a line and photo: file, caption, log_probability.

    Of several captions n_best or samples.
    """
    for result in results:
        values: dict[str, Any] = {"file": result.photo, "caption": result.caption}
        values["log_probability"] = result.log_probability
        if len(result.captions) > 1:
            values["samples" if result.sampled else "n_best"] = [
                {
                    "caption": caption.text,
                    "log_probability": caption.log_probability,
                    "score": caption.score,
                }
                for caption in result.captions
            ]
        yield json.dumps(values, ensure_ascii=False) + "\n"


def comma_separated(results: Iterable[PhotoCaptions]) -> Iterator[str]:
    """Yield a heading, then a line a caption.

    Text that a spreadsheet would take for a formula is quoted.
    """
    yield csv_text([("file", "rank", "caption", "log_probability")])
    for result in results:
        for rank, caption in enumerate(result.captions, start=1):
            texts = no_formula(plain(result.photo)), rank, no_formula(plain(caption.text))
            yield csv_text([(*texts, repr(caption.log_probability))])


FORMATS = {"pretty": pretty, "jsonl": json_lines, "csv": comma_separated}
