"""Extraction: an encoder turns the pictures of a corpus into a store of features."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from recap.core import checksums
from recap.core.device import select_device
from recap.core.documents import write_json
from recap.core.errors import ConfigError, DataError, FeatureError
from recap.core.files import reading
from recap.core.hashing import sha256_file, value_hash
from recap.core.threads import map_in_threads, prefetch
from recap.data.corpus import Corpus, pictures_of
from recap.data.files.images import ImageSource
from recap.data.subsets import read_used
from recap.features.records import GRID, ImageFeatures
from recap.features.write import Extract, FilesOf, Part, build_store
from recap.plan.source import code_digest
from recap.settings.features import Features, FeaturesConfig
from recap.settings.kinds import resolve

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

Item = TypeVar("Item")


@dataclass(frozen=True)
class ExtractionJob:
    """What an extractor works on, besides its settings."""

    #: corpus.parquet; None, for imported features alone: all images that there are
    corpus: Path | None
    images: Sequence[Path]  #: folders or zips with the pictures
    inputs: Path  #: folder that the outside files of the settings are relative to
    shards: Path  #: folder for unfinished work
    out: Path  #: the store
    device: str = "auto"  #: auto, cpu or cuda
    threads: int = 2  #: how many pictures or batches are prepared at a time
    trained: Path | None = (
        None  #: weights that the step `pretrain` made, for settings that ask for it
    )
    boxes: Path | None = None  #: a store whose main stream has boxes, for settings that name one
    cells: Path | None = None  #: a store with a grid, for settings that pool one
    #: files that the data set's reader wrote beside the corpus, if settings name some
    products: Sequence[Path] = ()
    #: JSON with the ids of the images to extract; None: all images of the corpus
    used: Path | None = None
    #: another name of the finished store, from which it grows when ``out`` is deleted
    kept: Path | None = None
    part: Part | None = None  #: extract only one of several parts of the store

    def wanted(self, images: Mapping[int, Item], where: Path) -> dict[int, Item]:
        """Return those of the images in ``where`` that are to be extracted."""
        if self.used is None:
            return dict(images)
        ids = read_used(self.used)
        if missing := [image_id for image_id in ids if image_id not in images]:
            raise DataError(
                f"{self.used}: image id {missing[0]} is not in {where}; delete the list and rerun "
                "its command"
            )
        return {image_id: images[image_id] for image_id in ids}


class Extractor(Protocol):
    """Writes a store; the config class of a kind of features names it (``extractor``)."""

    def __call__(self, spec: Any, job: ExtractionJob) -> object:
        """Write the features of all images of a job into its store.

        An interrupted run is taken up again.
        """


@dataclass(frozen=True)
class Picture:
    """The one picture of an image, decoded, as RGB."""

    image_id: int
    image: Image


class Encoder(ABC):
    """Turns pictures into features, those of a data set and single photos alike.

    A kind of features names it (``encoder``). It is made as ``Class(spec, weights=PATH,
    device=...)``: the settings, the file that their ``weights`` names (None where a library or a
    seed gives them) and a device.
    """

    attributes: Mapping[str, str]  #: what a store says of it: what `describe` returns
    #: names of the streams that every image has, the main one first
    streams: Sequence[str] = (GRID,)
    side_by_side = False  #: whether threads may call it at the same time

    def prepare(self, image_id: int, views: Sequence[Image]) -> Any:
        """Return what is encoded of an image, given as its views in RGB; called in threads."""
        if len(views) > 1:  # boxes or vectors of several could not be told apart
            raise DataError(
                f"image id {image_id} has {len(views)} views; use grid features, which take them "
                "all"
            )
        return Picture(image_id, views[0])

    def batches(self, items: Iterator[Any]) -> Iterator[Sequence[Any]]:
        """Yield what `prepare` returned in lists that are encoded together."""
        return ([item] for item in items)

    @abstractmethod
    def __call__(self, items: Sequence[Any]) -> Iterable[ImageFeatures]:
        """Return the features of a batch."""


@dataclass(frozen=True)
class Pictures:
    """The pictures of a corpus."""

    views: Mapping[int, Sequence[str]]  # image id -> file names, one per view
    source: ImageSource
    corpus: Corpus  # of all images, wanted or not

    @staticmethod
    def find(job: ExtractionJob) -> Pictures:
        """Find the wanted pictures in folders or zips.

        One that is missing is said before any work.
        """
        if job.corpus is None:
            raise ConfigError("pictures are those of a corpus: say which with --corpus")
        corpus = Corpus.read(job.corpus)
        source = pictures_of(job.corpus, job.images)
        views = job.wanted(corpus.views(), job.corpus)
        for file in source.missing(chain.from_iterable(views.values()))[:1]:
            source.read(file)  # raises, and says where it was looked for
        return Pictures(views, source, corpus)

    def open(self, image_id: int) -> list[Image]:
        """Return the views of an image, decoded, as RGB."""
        return [self.source.open_rgb(file) for file in self.views[image_id]]


def describe(
    spec: FeaturesConfig, *, weights_sha256: str, made_with: str, **more: Any
) -> dict[str, str]:
    """Return a store's attributes: settings but batch and shard sizes, and ``more``."""
    extractor = {**spec.identity(), **more}
    return {
        "extractor": json.dumps(extractor, sort_keys=True),
        "extractor_hash": value_hash(extractor),
        "weights_sha256": weights_sha256,
        "made_with": made_with,
    }


def make_encoder(spec: FeaturesConfig, *, weights: Path | None, device: torch.device) -> Encoder:
    """Return the encoder that settings name."""
    if spec.encoder is None:
        raise ConfigError(
            f"kind {spec.kind!r}: its class names neither an `encoder` nor an `extractor`; name one"
        )
    return resolve(spec.encoder)(spec, weights=weights, device=device)


def extract_pictures(spec: FeaturesConfig, job: ExtractionJob) -> None:
    """Write the store of the settings' encoder: the extractor of all kinds that name no other."""
    pictures = Pictures.find(job)

    extract(
        spec,
        job,
        make_encoder(spec, weights=weights_file(spec, job), device=select_device(job.device)),
        pictures,
    )


def extract(
    spec: FeaturesConfig,
    job: ExtractionJob,
    encoder: Encoder,
    pictures: Pictures,
    *,
    stores: Sequence[Path] = (),
) -> None:
    """Write the store that an encoder makes from pictures, and from other ``stores``."""

    views = pictures.corpus.views()  # also of images that only an earlier run was to extract

    def files(image_id: int) -> list[Path] | None:
        if image_id not in views:
            return None
        out = list(stores)
        for place in map(pictures.source.locate, views[image_id]):
            if place is not None:
                root, name = place
                out.append(root / name if root.is_dir() else root)
        return out

    write(
        spec,
        job,
        lambda groups: encoded(encoder, pictures, groups, threads=job.threads),
        ids=list(pictures.views),
        attributes=encoder.attributes,
        streams=encoder.streams,
        files=files,
    )
    pictures.source.warn_of_lying()


def encoded(
    encoder: Encoder, pictures: Pictures, groups: Iterable[Sequence[int]], *, threads: int
) -> Iterator[ImageFeatures]:
    """Yield the features of groups of images, in their order; decoding runs ahead in threads."""

    def prepared(image_id: int) -> Any:
        return encoder.prepare(image_id, pictures.open(image_id))

    def batches() -> Iterator[Sequence[Any]]:
        for group in groups:
            # Batches end with the group, so that their content
            # does not depend on where a killed job was resumed.
            yield from encoder.batches(map_in_threads(prepared, group, threads=threads))

    if encoder.side_by_side:
        records = chain.from_iterable(
            map_in_threads(lambda batch: list(encoder(batch)), batches(), threads=threads)
        )
    else:
        records = chain.from_iterable(map(encoder, prefetch(batches())))
    early: dict[int, ImageFeatures] = {}
    ids = chain.from_iterable(groups)
    awaited = next(ids, None)
    for record in records:
        early[record.image_id] = record
        while awaited in early:
            yield early.pop(awaited)
            awaited = next(ids, None)
    if awaited is not None:
        raise FeatureError(
            f"image id {awaited}: {type(encoder).__name__} gave no features of it; look at what it "
            "returns"
        )


def write(
    spec: FeaturesConfig,
    job: ExtractionJob,
    features: Extract,  # groups of image ids -> their features, in that order
    *,
    ids: Sequence[int],  # of all images
    attributes: Mapping[str, str],  # what the store says of the extractor
    streams: Sequence[str],  # names of the streams that every image has, the main one first
    files: FilesOf,  # what each image is made from
    made_from: Sequence[str] = (),  # hashes of files that all images depend on
) -> None:
    """Write the store of a job, or take up an interrupted run."""
    build_store(
        out=job.out,
        shards=job.shards,
        kept=job.kept,
        part=job.part,
        ids=ids,
        shard_size=spec.shard_size,
        dtype=spec.dtype,
        job=value_hash(
            [spec.identity(), dict(attributes), list(made_from), code_digest(*spec.targets())]
        ),
        attributes=attributes,
        extract=features,
        streams=streams,
        files=files,
    )


def weights_file(spec: FeaturesConfig, job: ExtractionJob) -> Path | None:
    """Return the file with an encoder's weights, or None where a library or a seed gives them."""
    if spec.trained_on_boxes():
        if job.trained is None:
            raise ConfigError(
                "the weights are trained first: say with --trained which file the step `pretrain` "
                "made"
            )
        return job.trained
    name = getattr(spec, "weights", None)
    return job.inputs / name if name in spec.outside_files() else None


def write_note(spec: Features, *, code: str, files: Sequence[Path], out: Path) -> None:
    """Write down what makes a store, whichever images it holds:
    settings, source, and the bytes of what is read.

    Neither places nor times: another clone writes the same note.
    """
    digests = []  # of a folder, of the names and sizes of its files
    for path in files:
        with reading(path, FeatureError, missing="correct the path"):
            if not path.is_dir():
                digests.append(sha256_file(path))
                continue
            sizes = [
                [file.relative_to(path).as_posix(), file.stat().st_size]
                for file in path.rglob("*")
                if file.is_file()
            ]
            digests.append(value_hash(sorted(sizes)))
    write_json(out, {"settings": spec.identity(), "code": code, "files": digests})
    checksums.record(out)
