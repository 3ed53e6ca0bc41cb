"""Extraction with a detector: pictures of one size pass through it together."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from recap.features.extraction import Pictures, job_hash
from recap.features.job import ExtractionJob
from recap.features.pictures import in_order
from recap.features.prefetch import prefetch
from recap.features.records import ImageFeatures
from recap.features.resized import Resized
from recap.features.write import build_store
from recap.settings.features import RegionFeatures, SegmentFeatures

if TYPE_CHECKING:
    from PIL.Image import Image

WAITING = 8  # batches of pictures that wait at most for others of their size

Item = TypeVar("Item")


class BatchExtractor(Protocol):
    """Makes the features of pictures of one size."""

    attributes: dict[str, str]  #: what the store says of it

    def prepare(self, image_id: int, picture: Image) -> Resized:
        """Return an RGB picture as the detector reads it; called in threads."""

    def __call__(self, pictures: Sequence[Resized]) -> list[ImageFeatures]:
        """Return the features of pictures that were all of one size."""


def extract_alike(
    spec: RegionFeatures | SegmentFeatures,
    job: ExtractionJob,
    *,
    pictures: Pictures,
    extractor: BatchExtractor,
    streams: Sequence[str],
    code: Sequence[str],
) -> None:
    """Write a store from an extractor that takes pictures of one size together; decoding runs ahead in threads.

    Pictures are not padded to each other: features near the edge of a padded one would differ from those of the same
    picture alone.

    Args:
        spec: the settings; ``batch_size`` pictures at most are taken together.
        job: what the extractor works on.
        pictures: what to extract from.
        extractor: the detector.
        streams: names of the streams that the detector gives, the main one first.
        code: modules whose code decides about the values, beside those that all extractors share.
    """

    def load(image_id: int) -> Resized:
        return extractor.prepare(image_id, pictures.open(image_id))

    def extract(groups: list[list[int]]) -> Iterator[ImageFeatures]:
        for group in groups:
            # Batches end with the group, so that their content does not depend on where a killed job was resumed.
            loaded = prefetch(in_order(load, group, threads=job.threads), depth=2 * spec.batch_size)
            batches = alike(loaded, key=lambda each: each.size, size=spec.batch_size, most=WAITING * spec.batch_size)
            yield from _as_asked((found for batch in batches for found in extractor(batch)), group)

    build_store(
        **job.target(),
        ids=list(pictures.views),
        shard_size=spec.shard_size,
        dtype=spec.dtype,
        job=job_hash(spec, extractor.attributes, code),
        attributes=extractor.attributes,
        extract=extract,
        streams=streams,
        origins=pictures.origins,
    )


def alike(items: Iterable[Item], *, key: Callable[[Item], Hashable], size: int, most: int) -> Iterator[list[Item]]:
    """Yield items in lists of up to ``size`` that have the same key.

    When ``most`` items wait for others of their key, those that wait with the oldest one are yielded as they are.
    """
    waiting: dict[Hashable, list[Item]] = {}  # the key of the oldest item is first
    for item in items:
        own = waiting.setdefault(key(item), [])
        own.append(item)
        if len(own) == size:
            yield waiting.pop(key(item))
        elif sum(map(len, waiting.values())) == most:
            yield waiting.pop(next(iter(waiting)))
    yield from waiting.values()


def _as_asked(records: Iterable[ImageFeatures], ids: Sequence[int]) -> Iterator[ImageFeatures]:
    """Yield records in the order of ``ids``."""
    found: dict[int, ImageFeatures] = {}
    remaining = iter(ids)
    wanted = next(remaining, None)
    for record in records:
        found[record.image_id] = record
        while wanted in found:
            yield found.pop(wanted)
            wanted = next(remaining, None)
