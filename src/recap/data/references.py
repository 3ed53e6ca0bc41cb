"""Reference captions for scoring: from a folder, the user's cache or known addresses.

No picture is needed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from recap.core.errors import ConfigError, DataError
from recap.core.hashing import value_hash
from recap.core.log import log
from recap.data.corpus import CORPUS, Corpus, build_corpus
from recap.data.files.download import Transfer
from recap.data.files.fetch import fetch_files
from recap.settings.datasets import DatasetConfig
from recap.settings.params import load_named, names
from recap.settings.versions import list_of, read_versions

# As `params/`, which an installed wheel lacks, of data sets whose captions can be fetched.
KNOWN = Path(__file__).with_name("captions")


def cache_folder() -> Path:
    """Return the user's folder of what can be fetched or made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "recap"


def references_corpus(dataset: str, *, params: Path, inputs: Path, fetch: bool) -> Path:
    """Return a corpus with the captions of a data set,
    without pictures where these are files of others.

    The first of these is taken: the corpus of a finished profile; the captions in ``inputs``; those
    in the user's cache; with ``fetch``, those at the known addresses.

    Raises:
        UnknownName: neither ``params`` nor recap itself knows the data set.
        DataError: no captions are there, or they are damaged; the sentence says what to bring.
    """
    folder = params if (params / "datasets").is_dir() else KNOWN
    settings: DatasetConfig = load_named(folder, "datasets", dataset).captions_alone()
    finished = _finished(dataset)
    if finished is not None:
        return finished
    # A data set's captions are in other files, too: those of `coco` as `coco_plain.yaml` says.
    variants = [name for name in names(KNOWN, "datasets") if name.partition("_")[0] == dataset]
    known = [load_named(KNOWN, "datasets", name) for name in variants]
    for place, source in product((inputs, cache_folder()), [settings, *known]):
        if all((place / file).exists() for file in source.outside_files()):
            return _corpus(dataset, source, place)
    fetched = _fetched(known) if fetch else None
    if fetched is not None:
        return _corpus(dataset, fetched, cache_folder())
    groups = [" with ".join(source.outside_files()) for source in [settings, *known]]
    remedy = "download them with --fetch" if known else "a corpus.parquet with --corpus"
    raise DataError(
        f"--dataset {dataset}: its captions ({' or '.join(dict.fromkeys(groups))}) are neither in "
        f"{inputs} nor in {cache_folder()}; give their folder with --inputs, or {remedy}"
    )


def _finished(dataset: str) -> Path | None:
    """Return a corpus of the data set that a profile here has finished."""
    finished = sorted(Path("results").glob(f"*/data/{dataset}/{CORPUS}"))
    if len({Corpus.read(path).split_hash for path in finished}) > 1:
        raise ConfigError(
            f"--dataset {dataset}: {' and '.join(map(str, finished))} differ; name one with "
            "--corpus"
        )
    return finished[0] if finished else None


def _fetched(sources: Sequence[DatasetConfig]) -> DatasetConfig | None:
    """Fetch the captions of the first settings whose files have an address, and return them."""
    listed = read_versions(list_of(KNOWN))
    for source in sources:
        files = source.outside_files()
        if not all(file in listed for file in files):
            continue
        try:
            fetch_files([listed[file] for file in files], into=cache_folder(), transfer=Transfer())
            return source
        except DataError as error:
            log.warning(str(error))
    return None


def _corpus(dataset: str, source: DatasetConfig, folder: Path) -> Path:
    """Return the corpus of caption files; the user's cache has it while these do not change."""
    states = [(folder / file).stat() for file in source.outside_files()]
    times = [[state.st_size, state.st_mtime_ns] for state in states]
    key = value_hash([source.model_dump(mode="json"), str(folder.resolve()), times])
    out = cache_folder() / "corpora" / f"{dataset}-{key}"
    if not (out / CORPUS).exists():
        build_corpus(name=dataset, spec=source, inputs=folder, out=out)
    return out / CORPUS
