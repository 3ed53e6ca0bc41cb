"""Feature files that others extracted, in any registered format, become a store.

All images are found before anything is read, so that an error such as a duplicate is raised before
hours of work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Protocol

import numpy as np

from recap.core.errors import FeatureError
from recap.core.files import reading
from recap.core.log import log
from recap.core.process import limited_memory
from recap.data.corpus import Corpus
from recap.features.extraction import ExtractionJob, describe, write
from recap.features.records import REGION, ImageFeatures
from recap.settings.features import FORMATS, ImportedFeatures

_NUMBER = re.compile(r"(?:^|[_-])([0-9]+)$")
# names that are an image id, or hold COCO's
_PUBLISHED = re.compile(r"(?:COCO_[a-z]+20\d\d_)?([0-9]{1,19})")
_LARGEST_ID = 2**63 - 1  # ids are stored as int64
_ROUNDED = 1.001  # a share of a side as float32 or float16 may be a little above 1


class Source(Protocol):
    """An opened format: made from paths, an `ImageIdLookup`
    and the settings, it knows its images before it reads."""

    streams: tuple[str, ...]  #: names of the streams that every image has, the main one first
    ids: list[int]

    def files(self, image_id: int) -> list[Path]:
        """Return the files that an image is read from."""

    def read(self, image_id: int) -> ImageFeatures:
        """Return the features of one image; ``values`` is a dictionary."""


@limited_memory()
def import_features(spec: ImportedFeatures, job: ExtractionJob) -> None:
    """Write a store from feature files; with a corpus, of exactly its images or those that are
    used.

    Memory holds one shard.
    """
    paths = [job.inputs / source for source in spec.sources]
    for path in paths:
        with reading(path, FeatureError, missing="correct the path"):
            path.stat()
    files = Corpus.read(job.corpus).files() if job.corpus else None
    lookup = ImageIdLookup(files, spec.names)
    source: Source = FORMATS.get(spec.format)(paths, lookup, spec)
    wanted = job.wanted(files, job.corpus) if files and job.corpus else None
    available = set(source.ids)
    ids = _wanted(source.ids, paths[0], wanted, spec.damaged, lookup.unfit)

    def features(groups: list[list[int]]) -> Iterator[ImageFeatures]:
        for number, image_id in enumerate(chain.from_iterable(groups)):
            record = source.read(image_id)
            if number == 0:
                _check_pixels(chain([record], map(source.read, ids)), paths[0])
            yield _changed(record, spec)

    attributes = describe(
        spec, weights_sha256="unknown", made_with=f"recap's importer of {spec.format}"
    )
    write(
        spec,
        job,
        features,
        ids=ids,
        attributes=attributes,
        streams=source.streams,
        files=lambda image_id: source.files(image_id) if image_id in available else None,
    )


def _wanted(
    available: list[int],
    path: Path,
    files: dict[int, str] | None,
    damaged: Sequence[int],
    unfit: set[str],
) -> list[int]:
    """Return the ids to import: all, or those of these files; only damaged ones may be missing."""
    if lost := sorted(set(damaged) - set(available)):
        log.warning(
            f"{path}: image id {', '.join(map(str, lost))}: no whole entry; left out, as `damaged` "
            "says"
        )
    if files is None:
        return available
    wanted = [image_id for image_id in files if image_id not in lost]
    if missing := sorted(set(wanted) - set(available)):
        doubt = ""
        if unfit:
            doubt = (
                f"; {len(unfit)} names, like {min(unfit)[:80]!r}, fit no picture (if they are "
                "image ids: --names ids)"
            )
        raise FeatureError(
            f"{path}: no features for image id {missing[0]} ({files[missing[0]]}) and "
            f"{len(missing) - 1} others of the {len(wanted)} images of the corpus{doubt}; fetch "
            "the files that have them, or take them out of it"
        )
    return wanted


def _check_pixels(records: Iterable[ImageFeatures], path: Path) -> None:
    """Refuse boxes that are shares of the sides:
    a box alone may be that small in pixels, all boxes of a file not."""
    for record in records:
        boxes = [array for name, array in dict(record.values).items() if _is_boxes(name, array)]
        if (
            not boxes
            or max(record.size) == 1
            or not all((array <= _ROUNDED).all() for array in boxes)
        ):
            return
    sides = (
        f"of {record.size[0]} x {record.size[1]} pixels"
        if any(record.size)
        else "whose size the files do not say"
    )
    raise FeatureError(
        f"{path}: all boxes are between 0 and 1, as those of image id {record.image_id}, {sides}: "
        "they are shares of the sides; multiply each by the width or height of its picture"
    )


def _changed(record: ImageFeatures, spec: ImportedFeatures) -> ImageFeatures:
    """Keep the first rows of the regions and clip boxes, where the settings say so."""
    edges = record.size * 2 if any(record.size) else (np.inf,) * 4
    arrays = dict(record.values)
    for name, array in arrays.items():
        own = array[: spec.rows] if name.startswith(REGION) else array
        arrays[name] = own.clip(0, edges) if spec.clip_boxes and _is_boxes(name, own) else own
    return replace(record, values=arrays)


def _is_boxes(name: str, array: np.ndarray) -> bool:
    # another shape is refused later, with the image's id
    return name.endswith("/boxes") and array.shape[1:] == (4,)


class ImageIdLookup:
    """Turns what a file calls a picture into its id:
    by the names of a corpus's pictures, whole, or by its number.

    A number is an id where the picture of this id has it in its own name, as COCO's have: of
    pictures that a reader numbered, it would be another one. ``names`` (`ImportedFeatures.names`)
    decides where a name fits two ways.
    """

    def __init__(
        self, files: Mapping[int, str] | None = None, names: Literal["files", "ids"] | None = None
    ) -> None:
        """Take image id -> file name of a corpus, or nothing.

        Then the number at the end of a name is the id.
        """
        self._files = files or {}
        self._names = names
        self._numbered = names == "ids" or (files is None and names is None)
        self.unfit: set[str] = set()  # names that no picture of the corpus has
        self._by_stem: dict[str, list[int]] = {}
        for image_id, file in self._files.items():
            self._by_stem.setdefault(PurePosixPath(file).stem, []).append(image_id)

    def image_id(self, name: str, where: str) -> int | None:
        """Return the id of ``name``, or None.

        Names are like ``132417``, ``COCO_train2014_000000132417.jpg`` or ``photos/dog``.
        """
        if self._numbered:
            return _number_at_end(PurePosixPath(name), where)
        fits = self._by_name(name)
        if self._names is None:
            fits |= self._by_number(name, named=bool(fits))
        if len(fits) > 1:
            both = " and ".join(f"{self._files[i]} (image id {i})" for i in sorted(fits)[:2])
            raise FeatureError(
                f"{where}: {name[:80]!r} fits {both}; say with `names` (--names) whether names are "
                "those of `files` or image `ids`, or put the picture's folder before its name"
            )
        if not fits:
            self.unfit.add(name)
            return None
        return fits.pop()

    def _by_name(self, name: str) -> set[int]:
        """Return the pictures with the name, with its folders if there are such."""
        path = PurePosixPath(name)
        alike = {*self._by_stem.get(path.name, ()), *self._by_stem.get(path.stem, ())}
        whole = set()
        for image_id in alike:
            file = self._files[image_id]
            if name in (file, str(PurePosixPath(file).with_suffix(""))):
                whole.add(image_id)
        return whole or alike

    def _by_number(self, name: str, *, named: bool) -> set[int]:
        """Return the picture whose id a name is, if there is one.

        Where a picture has the name (``named``), a bare number may be meant as an id. Else the id
        must be in the picture's own name.
        """
        match = _PUBLISHED.fullmatch(PurePosixPath(name).stem)
        if match is None or int(match[1]) not in self._files:
            return set()
        number = int(match[1])
        if named:
            return {number} if match[0] == match[1] else set()
        own = _NUMBER.search(PurePosixPath(self._files[number]).stem)
        return {number} if own is not None and int(own[1]) == number else set()


def _number_at_end(path: PurePosixPath, where: str) -> int:
    match = _NUMBER.search(path.stem)
    if match is None or int(match[1]) > _LARGEST_ID:
        raise FeatureError(
            f"{where}: {path.name[:80]!r} has no image id up to {_LARGEST_ID} at its end "
            "and no corpus to find it in; give the --corpus"
        )
    return int(match[1])


class EntryIndex(dict[int, Any]):
    """Where each image's entry is."""

    def add(self, image_id: int | None, entry: Any, where: str) -> None:
        """Add an entry; one without an id is of no picture
        that is asked for, a second one of an image is refused."""
        if image_id in self:
            raise FeatureError(f"{where}: image id {image_id} is duplicated; remove one of the two")
        if image_id is not None:
            self[image_id] = entry


def no_rows(image_id: int, where: str) -> FeatureError:
    """Return the error of an image without boxes."""
    return FeatureError(
        f"{where}: image id {image_id} has zero boxes; a model needs at least one vector: extract "
        "it again with a lower threshold, or leave the image out of the corpus"
    )


def only_path(paths: Sequence[Path], what: str) -> Path:
    """Return the only path; several are refused."""
    if len(paths) != 1:
        raise FeatureError(
            f"{paths[0]} and {len(paths) - 1} others: this format takes one {what}; import each "
            "alone"
        )
    return paths[0]


def plain_files(paths: Sequence[Path], what: str) -> Sequence[Path]:
    """Return the paths; a folder, or a file that may not be read, is refused."""
    for path in paths:
        with reading(path, FeatureError, missing=f"this format takes {what}: correct the path"):
            path.open("rb").close()
    return paths
