"""The import as a job: any known format -> a store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from recap.core.errors import FeatureError
from recap.core.hashing import value_hash
from recap.core.log import log
from recap.core.process import limited_memory
from recap.data.corpus.corpus import Corpus
from recap.features.attributes import describe
from recap.features.extraction import ExtractionJob
from recap.features.importers.base import ImageIdLookup, Source, existing
from recap.features.records import ImageFeatures
from recap.features.store import FeatureStore
from recap.features.write import build_store
from recap.plan.source import code_digest
from recap.settings.features import FORMATS, ImportedFeatures

_ROUNDED = 1.001  # a share of a side as float32 or float16 may be a little above 1


def extract(spec: ImportedFeatures, job: ExtractionJob) -> None:
    """Import as the workflow asks for it: no pictures are read."""
    import_features(spec, job)


@limited_memory()
def import_features(spec: ImportedFeatures, job: ExtractionJob) -> FeatureStore | None:
    """Write a store from feature files of one format; an interrupted import is taken up again.

    All images are found first, so that a duplicate, or one that the corpus has and the files lack, is said
    before anything is read. With a corpus, exactly its images or those that are used are taken; without, all. Memory
    holds one shard. Returns None where a part of a store was made.
    """
    paths = existing(job.inputs / source for source in spec.sources)
    files = Corpus.read(job.corpus).files() if job.corpus else None
    lookup = ImageIdLookup(files, spec.names)
    source: Source = FORMATS.get(spec.format)(paths, lookup, spec)
    wanted = job.wanted(files, job.corpus) if files and job.corpus else None
    ids = _wanted(source, paths, wanted, spec.damaged, lookup.unfit)

    def extract(groups: list[list[int]]) -> Iterator[ImageFeatures]:
        for number, image_id in enumerate(chain.from_iterable(groups)):
            record = source.read(image_id)
            if number == 0:
                _check_pixels(chain([record], map(source.read, ids)), paths[0])
            record = _first_rows(record, spec.rows)
            yield _clipped(record) if spec.clip_boxes else record

    attributes = describe(spec, weights_sha256="unknown", made_with=f"recap's importer of {spec.format}")
    build_store(
        **job.target(),
        ids=ids,
        shard_size=spec.shard_size,
        dtype=spec.dtype,
        job=value_hash([attributes, code_digest("recap.features.importers.job")]),
        attributes=attributes,
        extract=extract,
        streams=source.streams,
        origins=source.origins,
    )
    if job.part is not None:
        return None
    store = FeatureStore(job.out)
    rows = {stream: store.rows(store.ids.tolist(), stream) for stream in store.streams}
    said = "; ".join(f"{s}: {r.sum()} vectors, {r.min()} to {r.max()} per image" for s, r in rows.items())
    log.info(f"{job.out}: {len(store)} images, none twice; {said}")
    return store


def _wanted(
    source: Source, paths: Sequence[Path], files: dict[int, str] | None, damaged: Collection[int], unfit: set[str]
) -> list[int]:
    """Return the ids to import: all, or those with these files, of which only damaged ones may be missing."""
    there = source.ids()
    if lost := sorted(set(damaged) - set(there)):
        log.warning(f"{paths[0]}: image id {', '.join(map(str, lost))}: no whole entry; left out, as `damaged` says")
    if files is None:
        return there
    files = {image_id: file for image_id, file in files.items() if image_id not in lost}
    missing = sorted(set(files) - set(there))
    if missing:
        doubt = (
            unfit
            and f"; {len(unfit)} names, like {min(unfit)[:80]!r}, fit no picture (if they are image ids: --names ids)"
        )
        raise FeatureError(
            f"{paths[0]}: no features for image id {missing[0]} ({files[missing[0]]}) and {len(missing) - 1} others "
            f"of the {len(files)} images of the corpus{doubt or ''}; fetch the files that have them, or take "
            "them out of it"
        )
    count = len(there) + len(unfit)
    if beside := count - len(files):
        log.info(f"{paths[0]}: {beside} of its {count} images are not asked for and are left out")
    return list(files)


def _check_pixels(records: Iterable[ImageFeatures], path: Path) -> None:
    """Refuse boxes that are shares of the sides: a box alone may be that small in pixels, all boxes of a file not."""
    for record in records:
        assert not isinstance(record.values, np.ndarray)
        boxes = [array for name, array in record.values.items() if _is_boxes(name, array)]
        if not boxes or max(record.size) == 1 or not all((array <= _ROUNDED).all() for array in boxes):
            return
    sides = f"of {record.size[0]} x {record.size[1]} pixels" if any(record.size) else "whose size the files do not say"
    raise FeatureError(
        f"{path}: all boxes are between 0 and 1, as those of image id {record.image_id}, {sides}: they are "
        "shares of the sides; multiply each by the width or height of its picture"
    )


def _first_rows(record: ImageFeatures, rows: int | None) -> ImageFeatures:
    """Keep the first rows of the regions."""
    if rows is None:
        return record
    assert not isinstance(record.values, np.ndarray)
    kept = {n: array[:rows] if n.startswith("region") else array for n, array in record.values.items()}
    return ImageFeatures(record.image_id, record.size, kept)


def _is_boxes(name: str, array: np.ndarray) -> bool:
    """Tell boxes [N, 4]; those of another shape are refused later, with the image's id."""
    return name.endswith("/boxes") and array.shape[1:] == (4,)


def _clipped(record: ImageFeatures) -> ImageFeatures:
    """Bring boxes that reach over the edge back into the picture."""
    assert not isinstance(record.values, np.ndarray)
    width, height = record.size if any(record.size) else (np.inf, np.inf)
    values = {
        name: array.clip(0, [width, height, width, height]) if _is_boxes(name, array) else array
        for name, array in record.values.items()
    }
    return ImageFeatures(record.image_id, record.size, values)
