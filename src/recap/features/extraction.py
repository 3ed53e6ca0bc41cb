"""What extractors of pictures share: corpus and pictures found, pictures decoded ahead, a store written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from recap.core.errors import ConfigError, DataError
from recap.core.hashing import value_hash
from recap.data.corpus.corpus import Corpus
from recap.data.files.images import ImageSource
from recap.features.job import ExtractionJob
from recap.features.origins import Origins, ShownPictures
from recap.features.pictures import in_order
from recap.features.records import ImageFeatures
from recap.features.write import build_store
from recap.plan.source import code_digest
from recap.settings.features import FeaturesConfig

if TYPE_CHECKING:
    from PIL.Image import Image

SHARED = (
    "recap.features.pictures",
    "recap.features.records",
    "recap.features.weights",
    "recap.data.files.images",
)


@dataclass(frozen=True)
class Pictures:
    """The pictures of a corpus."""

    views: dict[int, list[str]]  #: image id -> file names, one per view
    source: ImageSource  #: where the files are
    origins: Origins  #: what tells the bytes of these pictures from others
    corpus: Corpus  #: of all images, wanted or not

    @staticmethod
    def find(job: ExtractionJob) -> Pictures:
        """Find the wanted pictures of a corpus in folders or zips."""
        if job.corpus is None:
            raise ConfigError("pictures are those of a corpus: say which with --corpus")
        table = Corpus.read(job.corpus)
        every = table.views()
        views = job.wanted(every, job.corpus)
        source = ImageSource(job.images)
        for file in source.missing(chain.from_iterable(views.values()))[:1]:
            source.read(file)  # raises, and says where it was looked for
        return Pictures(
            views,
            source,
            ShownPictures(source, views),
            table,
        )

    def training(self) -> dict[int, list[str]]:
        """Return image id -> file names of all training images of the corpus, wanted or not."""
        views = self.corpus.views()
        return {image_id: views[image_id] for image_id in self.corpus.image_ids("train")}

    def open(self, image_id: int) -> Image:
        """Return the one picture of an image, decoded, as RGB."""
        first, *others = self.views[image_id]
        if others:
            raise DataError(f"image id {image_id} has {1 + len(others)} views; use grid features, which take them all")
        return self.source.open_rgb(first)


def extract_each(
    spec: FeaturesConfig,
    job: ExtractionJob,
    *,
    pictures: Pictures,
    encode: Callable[[int, Image], ImageFeatures],
    attributes: Mapping[str, str],
    streams: Sequence[str],
    code: Sequence[str],
) -> None:
    """Write a store from an extractor that takes one picture at a time; decoding runs ahead in threads.

    Args:
        spec: the settings.
        job: what the extractor works on.
        pictures: what to extract from.
        encode: image id and picture -> features.
        attributes: what the store says of the extractor.
        streams: names of the streams that ``encode`` gives, the main one first.
        code: modules whose code decides about the values, beside those that all extractors share.
    """

    def load(image_id: int) -> tuple[int, Image]:
        return image_id, pictures.open(image_id)

    def extract(groups: list[list[int]]) -> Iterator[ImageFeatures]:
        wanted = (image_id for group in groups for image_id in group)
        for image_id, picture in in_order(load, wanted, threads=job.threads):
            yield encode(image_id, picture)

    build_store(
        **job.target(),
        ids=list(pictures.views),
        shard_size=spec.shard_size,
        dtype=spec.dtype,
        job=job_hash(spec, attributes, code),
        attributes=attributes,
        extract=extract,
        streams=streams,
        origins=pictures.origins,
    )


def job_hash(spec: FeaturesConfig, attributes: Mapping[str, str], code: Sequence[str], *more: str) -> str:
    """Return a hash of what the features of every image depend on: no images, nor how the extractor works.

    Args:
        spec: the settings.
        attributes: what the store says of the extractor.
        code: modules whose code decides about the values, beside those that all extractors share.
        more: hashes of files that all images depend on.
    """
    return value_hash([spec.identity(), dict(attributes), list(more), code_digest(*code, *SHARED)])
