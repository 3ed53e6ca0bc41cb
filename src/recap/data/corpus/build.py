"""From the files of any data set to its corpus, by the reader that the settings name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recap.core import checksums
from recap.core.plugins import resolve
from recap.core.process import limited_memory
from recap.data.corpus.corpus import write_corpus
from recap.settings.datasets import Dataset, DatasetConfig
from recap.settings.params import validate

if TYPE_CHECKING:
    from recap.data.datasets.base import Reader

CORPUS = "corpus.parquet"


@limited_memory()
def build_corpus(*, name: str, spec: Mapping[str, Any] | DatasetConfig, inputs: Path, out: Path) -> None:
    """Write ``corpus.parquet`` of a data set, and the products of its kind (images.zip), into the folder ``out``.

    All files written are listed in the folder's `SHA256SUMS`. Paths in the spec are relative to ``inputs``.
    """
    checked: DatasetConfig
    checked = validate(Dataset, dict(spec), f"datasets/{name}.yaml") if isinstance(spec, Mapping) else spec
    read: Reader = resolve(checked.reader)
    built = read(checked, inputs=Path(inputs), out=Path(out), name=name)
    corpus = Path(out) / CORPUS
    write_corpus(
        built.captions,
        corpus,
        dataset=name,
        kind=checked.kind,
        source_sha256=built.source_sha256,
        drawn_from=built.drawn_from,
    )
    checksums.record(corpus, *(Path(out) / product for product in checked.products))
