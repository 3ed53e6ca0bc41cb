"""What extractors of pictures share: corpus and pictures found, pictures decoded ahead, a store written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from recap.core.config import RegionFeatures, SegmentFeatures
from recap.core.errors import DataError
from recap.core.hashing import code_digest, value_hash
from recap.data.corpus.corpus import Corpus
from recap.data.files.images import ImageSource
from recap.features.origins import Origins, ShownPictures
from recap.features.pictures import in_order
from recap.features.records import ImageFeatures
from recap.features.writer import build_store

if TYPE_CHECKING:
    from PIL.Image import Image

SHARED = (
    "features/pictures",
    "features/records",
    "features/shards",
    "features/weights",
    "features/writer",
    "data/files/images",
)


@dataclass(frozen=True)
class Pictures:
    """The pictures of a corpus.

    Attributes:
        views: image id -> file names, one a view.
        source: where the files are.
        origins: what tells the bytes of these pictures from others.
        made_from: what else the hash of a job must hold of them: the captions' file, and which pictures make an image.
    """

    views: dict[int, list[str]]
    source: ImageSource
    origins: Origins
    made_from: list[Any]

    @staticmethod
    def find(corpus: Path, images: Sequence[Path]) -> Pictures:
        """Find all pictures of a corpus in folders or zips.

        Raises:
            DataError: one is missing; said before any work.
        """
        table = Corpus.read(corpus)
        views = table.views()
        source = ImageSource(images)
        for file in source.missing(chain.from_iterable(views.values()))[:1]:
            source.read(file)  # raises, and says where it was looked for
        return Pictures(views, source, ShownPictures(source, views), [table.source_sha256, sorted(views.items())])

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
    *,
    spec: RegionFeatures | SegmentFeatures,
    pictures: Pictures,
    encode: Callable[[int, Image], ImageFeatures],
    attributes: Mapping[str, str],
    streams: Sequence[str],
    code: Sequence[str],
    threads: int,
    shards: Path,
    out: Path,
) -> None:
    """Write a store from an extractor that takes one picture at a time; decoding runs ahead in threads.

    Args:
        spec: the settings, with dtype and shard_size.
        pictures: what to extract from.
        encode: image id and picture -> features.
        attributes: what the store says of the extractor.
        streams: names of the streams that ``encode`` gives, the main one first.
        code: modules whose code decides about the values, beside those that all extractors share.
        threads: how many pictures are decoded at a time.
        shards: folder for unfinished work.
        out: the store.
    """

    def load(image_id: int) -> tuple[int, Image]:
        return image_id, pictures.open(image_id)

    def extract(groups: list[list[int]]) -> Iterator[ImageFeatures]:
        wanted = (image_id for group in groups for image_id in group)
        for image_id, picture in in_order(load, wanted, threads=threads):
            yield encode(image_id, picture)

    build_store(
        out=out,
        shards=shards,
        ids=list(pictures.views),
        shard_size=spec.shard_size,
        dtype=spec.dtype,
        job=job_hash(spec, attributes, pictures.made_from, code),
        attributes=attributes,
        extract=extract,
        streams=streams,
        origins=pictures.origins,
    )


def job_hash(spec: BaseModel, attributes: Mapping[str, str], made_from: list[Any], code: Sequence[str]) -> str:
    """Return a hash of everything the values of a store depend on."""
    return value_hash([spec.model_dump(mode="json"), dict(attributes), made_from, code_digest(*code, *SHARED)])
