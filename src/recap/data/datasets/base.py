"""What readers of data sets share: their interface, and the check that every picture is there once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Protocol, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from recap.core.errors import DataError
from recap.core.log import log
from recap.core.problems import first_problem
from recap.data.corpus.corpus_file import VIEWS, Caption, DrawnFrom
from recap.data.vocabulary.text import is_storable

if TYPE_CHECKING:
    from recap.data.files.images import ImageSource


Id = Annotated[int, Field(ge=0, lt=2**63)]  # of an image or a caption


def _storable(text: str) -> str:
    if not is_storable(text):
        raise ValueError("half of a surrogate pair cannot be stored")
    return text


String = Annotated[str, AfterValidator(_storable)]
Text = Annotated[String, Field(min_length=1)]


class Entry(BaseModel):
    """An entry of a foreign file; other keys that it has are passed over."""

    model_config = ConfigDict(strict=True, frozen=True)


EntryT = TypeVar("EntryT", bound=Entry)


def parsed(kind: type[EntryT], value: Any, where: str) -> EntryT:
    """Return an entry of a foreign file; what is wrong with it is one sentence with its place and key."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise DataError(f"{where}: {first_problem(error, kind)}; correct it, or remove the entry") from error


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
