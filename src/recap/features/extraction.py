"""How every extractor works: what it is given, pictures loaded ahead in threads, batches encoded, a store written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from recap.core.errors import ConfigError, DataError
from recap.core.hashing import value_hash
from recap.data.corpus.corpus import Corpus
from recap.data.files.images import ImageSource
from recap.data.subsets.used import read_used
from recap.features.origins import Origins, ShownPictures
from recap.features.pictures import in_order, singly
from recap.features.records import GRID, ImageFeatures
from recap.features.write import Part, build_store
from recap.plan.source import code_digest
from recap.settings.features import FeaturesConfig

if TYPE_CHECKING:
    from PIL.Image import Image

SHARED = (
    "recap.features.pictures",
    "recap.features.records",
    "recap.features.backbones",
    "recap.data.files.images",
)
Item = TypeVar("Item")
Batches = Callable[[Iterator[Item]], Iterator[list[Item]]]


@dataclass(frozen=True)
class ExtractionJob:
    """What an extractor works on, besides its settings."""

    corpus: Path | None  #: corpus.parquet; None, for imported features alone: all images that there are
    images: Sequence[Path]  #: folders or zips with the pictures
    inputs: Path  #: folder that the outside files of the settings are relative to
    shards: Path  #: folder for unfinished work
    out: Path  #: the store
    device: str = "auto"  #: auto, cpu or cuda
    threads: int = 2  #: how many pictures or batches are prepared at a time
    trained: Path | None = None  #: weights that the step `pretrain` or `tune` made, for settings that ask for it
    boxes: Path | None = None  #: a store whose main stream has boxes, for settings that name one
    cells: Path | None = None  #: a store with a grid, for settings that pool one
    products: Sequence[Path] = ()  #: files that the data set's reader wrote beside the corpus, where settings name some
    used: Path | None = None  #: JSON with the ids of the images to extract; None: all images of the corpus
    kept: Path | None = None  #: another name of the finished store, from which it grows when ``out`` is deleted
    part: Part | None = None  #: extract only one of several parts of the store

    def target(self) -> dict[str, Any]:
        """Return where the store is made, as arguments of :func:`recap.features.write.build_store`."""
        return {"out": self.out, "shards": self.shards, "kept": self.kept, "part": self.part}

    def wanted(self, images: Mapping[int, Item], where: Path) -> dict[int, Item]:
        """Return those of the images in ``where`` that are to be extracted; one that is not there is refused."""
        if self.used is None:
            return dict(images)
        ids = read_used(self.used)
        if missing := [image_id for image_id in ids if image_id not in images]:
            raise DataError(
                f"{self.used}: image id {missing[0]} is not in {where}; delete the list and rerun its command"
            )
        return {image_id: images[image_id] for image_id in ids}


class Extractor(Protocol):
    """Writes a store; the config class of a kind of features names it (``extractor``)."""

    def __call__(self, spec: Any, job: ExtractionJob) -> object:
        """Write the features of all images of a job into its store; an interrupted run is taken up again.

        Raises:
            RecapError: weights, files or pictures are missing or broken, no GPU where one is asked for.
        """


@dataclass(frozen=True)
class Pictures:
    """The pictures of a corpus."""

    views: dict[int, list[str]]  #: image id -> file names, one per view
    source: ImageSource  #: where the files are
    origins: Origins  #: what tells the bytes of these pictures from others
    corpus: Corpus  #: of all images, wanted or not

    @staticmethod
    def find(job: ExtractionJob) -> Pictures:
        """Find the wanted pictures of a corpus in folders or zips; one that is missing is said before any work."""
        if job.corpus is None:
            raise ConfigError("pictures are those of a corpus: say which with --corpus")
        corpus = Corpus.read(job.corpus)
        views = job.wanted(corpus.views(), job.corpus)
        source = ImageSource(job.images)
        for file in source.missing(chain.from_iterable(views.values()))[:1]:
            source.read(file)  # raises, and says where it was looked for
        return Pictures(views, source, ShownPictures(source, views), corpus)

    def load(self, image_id: int) -> tuple[int, Image]:
        """Return an image's id and its one picture, decoded, as RGB."""
        first, *others = self.views[image_id]
        if others:
            raise DataError(f"image id {image_id} has {1 + len(others)} views; use grid features, which take them all")
        return image_id, self.source.open_rgb(first)


def extract(
    spec: FeaturesConfig,
    job: ExtractionJob,
    encode: Callable[[list[Item]], Iterable[ImageFeatures]],
    batch: Batches[Item] = singly,
    *,
    ids: Sequence[int],
    origins: Origins,
    load: Callable[[int], Item],
    attributes: Mapping[str, str],
    code: Sequence[str],
    streams: Sequence[str] = (GRID,),
    files: Sequence[str] = (),
    parallel: bool = False,
) -> None:
    """Write a store.

    Args:
        spec: the settings.
        job: what the extractor works on.
        encode: a batch of what ``load`` returned -> the features of its images.
        batch: says which images of a shard are encoded together (default: one at a time).
        ids: the images.
        origins: what tells the bytes that they are made from.
        load: image id -> what is encoded; called in threads, ahead.
        attributes: what the store says of the extractor.
        code: modules whose code decides about the values, beside those that all extractors share.
        streams: names of the streams that ``encode`` gives, the main one first.
        files: hashes of files that all images depend on.
        parallel: whether several batches are encoded at a time.
    """
    build_store(
        **job.target(),
        ids=ids,
        shard_size=spec.shard_size,
        dtype=spec.dtype,
        job=value_hash([spec.identity(), dict(attributes), list(files), code_digest(*code, *SHARED)]),
        attributes=attributes,
        extract=lambda groups: encoded(groups, load, batch, encode, threads=job.threads, parallel=parallel),
        streams=streams,
        origins=origins,
    )


def encoded(
    groups: Iterable[Sequence[int]],
    load: Callable[[int], Item],
    batch: Batches[Item],
    encode: Callable[[list[Item]], Iterable[ImageFeatures]],
    *,
    threads: int,
    parallel: bool,
) -> Iterator[ImageFeatures]:
    """Yield the features of the images of groups, in their order.

    Batches end with their group, so that their content does not depend on where an interrupted run went on.
    """
    for group in groups:
        batches = batch(in_order(load, group, threads=threads))
        waiting: dict[int, ImageFeatures] = {}
        order = iter(group)
        wanted = next(order, None)
        for records in in_order(lambda items: list(encode(items)), batches, threads=threads if parallel else 1):
            waiting |= {record.image_id: record for record in records}
            while wanted in waiting:
                yield waiting.pop(wanted)
                wanted = next(order, None)
