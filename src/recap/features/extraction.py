"""What extractors of pictures share: corpus and pictures found, pictures decoded ahead, a store written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from recap.core.errors import ConfigError, DataError
from recap.core.hashing import value_hash
from recap.data.corpus.corpus import Corpus
from recap.data.files.images import ImageSource
from recap.features.job import ExtractionJob
from recap.features.origins import Origins, ShownPictures
from recap.features.pictures import in_order
from recap.features.records import ImageFeatures
from recap.features.writer import build_store
from recap.plan.source import code_digest
from recap.settings.features import FeaturesConfig

if TYPE_CHECKING:
    from PIL.Image import Image

SHARED = (
    "recap.features.pictures",
    "recap.features.records",
    "recap.features.shards",
    "recap.features.weights",
    "recap.features.writer",
    "recap.data.files.images",
)


@dataclass(frozen=True)
class Pictures:
    """The pictures of a corpus.

    Attributes:
        views: image id -> file names, one per view.
        source: where the files are.
        origins: what tells the bytes of these pictures from others.
        corpus: which images there are, and their splits.
        made_from: what else the hash of a job must hold of them: the captions' file, and which pictures make an image.
    """

    views: dict[int, list[str]]
    source: ImageSource
    origins: Origins
    corpus: Corpus
    made_from: list[Any]

    @staticmethod
    def find(job: ExtractionJob) -> Pictures:
        """Find all pictures of a corpus in folders or zips.

        Raises:
            ConfigError: no corpus is given.
            DataError: a picture is missing; said before any work.
        """
        if job.corpus is None:
            raise ConfigError("pictures are those of a corpus: say which with --corpus")
        table = Corpus.read(job.corpus)
        views = table.views()
        source = ImageSource(job.images)
        for file in source.missing(chain.from_iterable(views.values()))[:1]:
            source.read(file)  # raises, and says where it was looked for
        return Pictures(
            views,
            source,
            ShownPictures(source, views),
            table,
            [table.source_sha256, sorted(views.items())],
        )

    def open(self, image_id: int) -> Image:
        """Return the one picture of an image, decoded, as RGB.

        Raises:
            DataError: the image has several views, which boxes cannot tell apart.
        """
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
        out=job.out,
        shards=job.shards,
        ids=list(pictures.views),
        shard_size=spec.shard_size,
        dtype=spec.dtype,
        job=job_hash(spec, attributes, pictures.made_from, code),
        attributes=attributes,
        extract=extract,
        streams=streams,
        origins=pictures.origins,
    )


def job_hash(spec: FeaturesConfig, attributes: Mapping[str, str], made_from: list[Any], code: Sequence[str]) -> str:
    """Return a hash of everything the values of a store depend on; how the extractor works is not part of it."""
    return value_hash([spec.identity(), dict(attributes), made_from, code_digest(*code, *SHARED)])
