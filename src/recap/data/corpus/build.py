"""From the files of any data set to its corpus: one reader a kind of data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recap.core.config import (
    CocoDataset,
    ConceptualDataset,
    Dataset,
    IuXrayDataset,
    KarpathyDataset,
    ScenesDataset,
)
from recap.core.errors import DataError
from recap.core.files import checksums
from recap.core.hashing import sha256_file, value_hash
from recap.core.params import validate
from recap.data.corpus.corpus import VIEWS, Caption, write_corpus

if TYPE_CHECKING:
    from recap.data.files.images import ImageSource


CORPUS = "corpus.parquet"
# What readers write beside the corpus.
_BESIDE = {"scenes": ("images.zip", "boxes.json"), "iu_xray": ("images.zip", "studies.csv", "counts.md")}

Built = tuple[Iterable[Caption], str]  # the captions, and a hash of the files they were read from


def build_corpus(*, name: str, spec: Mapping[str, Any] | Dataset, inputs: Path, out: Path) -> None:
    """Write ``corpus.parquet`` of a data set into the folder ``out``, for some kinds with other files (images.zip).

    All files written are listed in the folder's `SHA256SUMS`.

    Args:
        name: name of the data set.
        spec: its config object, or the mapping of it.
        inputs: folder that the paths in the spec are relative to.
        out: folder of the data set.

    Raises:
        DataError: annotations or images are missing or broken.
        ConfigError: the mapping is no data set.
    """
    checked = validate(Dataset, dict(spec), f"datasets/{name}.yaml") if isinstance(spec, Mapping) else spec
    captions, source = _READERS[checked.kind](checked, Path(inputs), Path(out), name)
    corpus = Path(out) / CORPUS
    write_corpus(captions, corpus, dataset=name, kind=checked.kind, source_sha256=source)
    checksums.record(corpus, *(Path(out) / beside for beside in _BESIDE.get(checked.kind, ())))


def _scenes(spec: ScenesDataset, inputs: Path, out: Path, name: str) -> Built:
    from recap.data.datasets.scenes.build import render_scenes

    captions = render_scenes(
        train=spec.train, val=spec.val, test=spec.test, size=spec.size, most=spec.most, seed=spec.seed, out=out
    )
    return captions, sha256_file(out / "images.zip")


def _conceptual(spec: ConceptualDataset, inputs: Path, out: Path, name: str) -> Built:
    from recap.data.datasets.conceptual.reader import read_conceptual, survivors_of

    train, validation, images = inputs / spec.train, inputs / spec.validation, inputs / spec.images
    captions = read_conceptual(
        train=train, validation=validation, images=images, val_pairs=spec.val_pairs, seed=spec.seed, dataset=name
    )
    files = [train, validation, survivors_of(images / "train"), survivors_of(images / "validation")]
    for file in files:
        if not file.is_file():
            raise DataError(f"{file}: no such file; fetch it (lists: `recap data conceptual-download`)")
    return captions, value_hash([sha256_file(file) for file in files])


def _iu_xray(spec: IuXrayDataset, inputs: Path, out: Path, name: str) -> Built:
    from recap.data.datasets.iu_xray.reader import read_iu_xray

    return read_iu_xray(spec, inputs=inputs, out=out)


def _karpathy(spec: KarpathyDataset, inputs: Path, out: Path, name: str) -> Built:
    from recap.data.datasets.karpathy import read_karpathy
    from recap.data.files.images import ImageSource

    annotations = inputs / spec.annotations
    captions = read_karpathy(annotations, merge_restval=spec.merge_restval, member=spec.member)
    source = ImageSource([inputs / images for images in spec.images])
    _check_pictures({row.file: row.image_id for row in captions}, source, annotations)
    return captions, sha256_file(annotations)


def _coco(spec: CocoDataset, inputs: Path, out: Path, name: str) -> Built:
    from recap.data.datasets.coco import read_coco, with_pictures
    from recap.data.files.images import ImageSource

    images = ImageSource([inputs / name for name in spec.images])
    captions = with_pictures(read_coco(spec, inputs), images)
    files = [inputs / name for name in (*spec.annotations, spec.val_list, spec.test_list) if name is not None]
    _check_pictures({row.file: row.image_id for row in captions}, images, files[0])
    hashes = [sha256_file(file) for file in files]
    return captions, hashes[0] if len(hashes) == 1 else value_hash(hashes)


def _check_pictures(ids: Mapping[str, int], source: ImageSource, annotations: Path) -> None:
    """Refuse files (with their image ids) that have no picture or seem to be several, and two that would share one."""
    several = next((file for file in ids if VIEWS in file), None)
    if several is not None:
        raise DataError(
            f"{annotations}: image id {ids[several]} has the file {several!r}, and {VIEWS!r} parts the views of an "
            "image in the corpus; rename the picture"
        )
    missing = source.missing(ids)
    if missing:
        more = f" (nor are {len(missing) - 1} others)" if len(missing) > 1 else ""
        places = ", ".join(str(root) for root in source.roots)
        raise DataError(
            f"{missing[0]}: the picture of image id {ids[missing[0]]} is not in {places}{more}; "
            f"add it, or remove the image from {annotations}"
        )
    owners: dict[object, str] = {}
    for file in ids:
        # a/1.jpg and b/1.jpg both fall back to a lone 1.jpg; one of them would get the other's picture.
        owner = owners.setdefault(source.locate(file), file)
        if owner != file:
            raise DataError(
                f"{file} (image id {ids[file]}) and {owner} (image id {ids[owner]}) are found as one picture; "
                f"name all folders of images"
            )


_READERS: dict[str, Callable[[Any, Path, Path, str], Built]] = {
    "coco": _coco,
    "conceptual": _conceptual,
    "iu_xray": _iu_xray,
    "karpathy": _karpathy,
    "scenes": _scenes,
}
