"""The images that runs read: those of their subsets, and all that are no training images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from recap.core import checksums
from recap.core.errors import DataError
from recap.core.files import write_text
from recap.data.corpus.corpus import Corpus
from recap.data.subsets.draw import read_subset


def write_used(*, corpora: Sequence[Path], subsets: Sequence[Path], out: Path, parts: Sequence[str] = ()) -> None:
    """Write the ids of all images that runs on these subsets read, one a line, ascending.

    All corpora have the same pictures. Of ``parts``, folders such as val2014, all pictures are captioned.
    """
    sources = {corpus.dataset: corpus for corpus in map(Corpus.read, corpora)}
    found = [source.image_id[source.split != "train"] for source in sources.values()]
    for path in subsets:
        drawn = read_subset(path)
        if drawn["dataset"] not in sources:
            raise DataError(f"{path}: drawn from {drawn['dataset']!r}, whose corpus is not given; add it to --corpus")
        found.append(sources[drawn["dataset"]].image_ids_of(drawn["caption_ids"]))
    folders = tuple(f"{part}/" for part in parts)
    for source in sources.values() if parts else ():
        found.append(np.array([image for image, file in source.files().items() if file.startswith(folders)], np.int64))
    write_text(out, "".join(f"{image_id}\n" for image_id in np.unique(np.concatenate(found)).tolist()))
    checksums.record(out)


def read_used(path: Path) -> list[int]:
    """Return the ids of a list of images, ascending."""
    checksums.check(path)
    try:
        lines = path.read_text(encoding="ascii").splitlines()
        ids = [int(line) for line in lines]
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path}: no list of image ids ({error}); delete it and repeat the command that makes it"
        ) from error
    if not ids or not bool((np.diff(ids) > 0).all()):
        raise DataError(f"{path}: its image ids do not rise; delete it and repeat the command that makes it")
    return ids
