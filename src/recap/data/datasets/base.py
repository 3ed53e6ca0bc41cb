"""What readers of data sets share: their interface, and the check that every picture is there once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from recap.core.errors import DataError
from recap.core.log import log
from recap.data.corpus.corpus_file import VIEWS, Caption, DrawnFrom

if TYPE_CHECKING:
    from recap.data.files.images import ImageSource


class Built(NamedTuple):
    """What a reader returns."""

    captions: Iterable[Caption]  #: of all splits
    source_sha256: str  #: a hash of the files that they were read from
    #: where not all pictures were asked for: what draws are shares of (:class:`DrawnFrom`)
    drawn_from: DrawnFrom | None = None


class Reader(Protocol):
    """Reads the data sets of one kind; the config class of the kind names it (``reader``)."""

    def __call__(self, spec: Any, *, inputs: Path, out: Path, name: str) -> Built:
        """Read a data set.

        Args:
            spec: its settings.
            inputs: folder that the paths in the settings are relative to.
            out: folder for the products that the settings announce (``products``).
            name: name of the data set.

        Raises:
            DataError: annotations or pictures are missing or broken.
        """


def warn_of_part(where: str | Path, count: int, whole: int, what: str) -> None:
    """Say that a published list is not whole: a part may be meant, and results from it are not the published ones."""
    if count < whole:
        log.warning(f"{where}: {count:,} {what} where {whole:,} are published; fetch it again, unless a part is meant")


def check_pictures(ids: Mapping[str, int], source: ImageSource, annotations: Path) -> None:
    """Refuse files (with their image ids) that have no picture or seem to be several, and two that would share one."""
    several = next((file for file in ids if VIEWS in file), None)
    if several is not None:
        raise DataError(
            f"{annotations}: image id {ids[several]} has the file {several!r}, and {VIEWS!r} separates the views of an "
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
