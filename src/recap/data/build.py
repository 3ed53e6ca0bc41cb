"""From the files of any data set to its corpus: one reader a kind of data set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recap.core.config import Dataset, IuXrayDataset, KarpathyDataset, ScenesDataset
from recap.core.errors import DataError
from recap.core.manifests import sha256_file
from recap.core.params import validate
from recap.data.corpus import Caption, write_corpus

if TYPE_CHECKING:
    from recap.data.images import ImageSource


AnyDataset = KarpathyDataset | ScenesDataset | IuXrayDataset


def build_corpus(*, name: str, spec: Mapping[str, Any] | AnyDataset, inputs: Path, out: Path) -> None:
    """Write ``corpus.parquet`` of a data set into the folder ``out``, for some kinds with other files (images.zip).

    Args:
        name: name of the data set.
        spec: its config object, or the mapping of it.
        inputs: folder that the paths in the spec are relative to.
        out: folder of the data set.

    Raises:
        DataError: annotations or images are missing or broken.
        ConfigError: the mapping is no data set.
    """
    spec = validate(Dataset, dict(spec), f"datasets/{name}.yaml") if isinstance(spec, Mapping) else spec
    if isinstance(spec, ScenesDataset):
        captions, source = _scenes(spec, out)
    elif isinstance(spec, IuXrayDataset):
        captions, source = _iu_xray(spec, Path(inputs), Path(out))
    else:
        captions, source = _karpathy(spec, Path(inputs))
    write_corpus(captions, Path(out) / "corpus.parquet", dataset=name, kind=spec.kind, source_sha256=source)


def _scenes(spec: ScenesDataset, out: Path) -> tuple[list[Caption], str]:
    from recap.data.scenes import render_scenes

    captions = render_scenes(
        train=spec.train, val=spec.val, test=spec.test, size=spec.size, seed=spec.seed, out=Path(out)
    )
    return captions, sha256_file(Path(out) / "images.zip")


def _iu_xray(spec: IuXrayDataset, inputs: Path, out: Path) -> tuple[list[Caption], str]:
    from recap.data.iu_xray import read_iu_xray

    return read_iu_xray(spec, inputs=inputs, out=out)


def _karpathy(spec: KarpathyDataset, inputs: Path) -> tuple[list[Caption], str]:
    from recap.data.images import ImageSource
    from recap.data.karpathy import read_karpathy

    annotations = inputs / spec.annotations
    captions = read_karpathy(annotations, merge_restval=spec.merge_restval)
    source = ImageSource([inputs / images for images in spec.images])
    _check_pictures({row.file: row.image_id for row in captions}, source, annotations)
    return captions, sha256_file(annotations)


def _check_pictures(ids: Mapping[str, int], source: ImageSource, annotations: Path) -> None:
    """Refuse files (with their image ids) that have no picture, and two files that would share one."""
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
