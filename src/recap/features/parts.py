"""A store made in parts, each by a job with its own GPU: a part extracts some of the shards, and one job merges all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict

from recap.core.documents import read_json, write_json
from recap.core.errors import FeatureError

if TYPE_CHECKING:
    from recap.features.shards import Shard

Item = TypeVar("Item")


@dataclass(frozen=True)
class Part:
    """One of several parts.

    Attributes:
        number: of the part, from 0.
        count: of all parts.
        done: the file that says that the part is finished, and how all are merged.
    """

    number: int
    count: int
    done: Path

    @staticmethod
    def of(text: str, done: Path) -> Part:
        """Return part ``2/4``: the second of four.

        Raises:
            FeatureError: there is no such part.
        """
        number, _, count = text.partition("/")
        if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            raise FeatureError(f"--part {text}: expected NUMBER/COUNT, such as 2/4 for the second of four")
        return Part(int(number) - 1, int(count), done)

    def share(self, pieces: Sequence[Item]) -> list[Item]:
        """Return what of all pieces is this part's."""
        return list(pieces[self.number :: self.count])

    def finish(self, pieces: Sequence[Shard], *, ids: Sequence[int], header: Mapping[str, str]) -> None:
        """Say that the part is finished."""
        said = Finished(header=dict(header), shards=[piece.path.name for piece in pieces], ids=list(ids))
        write_json(self.done, said.model_dump())


class Finished(BaseModel):
    """What a finished part says: the same as every other part of the store.

    Attributes:
        header: attributes of the store.
        shards: names of the shards of all parts.
        ids: all image ids, ascending.
    """

    model_config = ConfigDict(extra="forbid")

    header: dict[str, str]
    shards: list[str]
    ids: list[int]


def read_parts(files: Sequence[Path]) -> Finished:
    """Return what all parts say.

    Raises:
        FeatureError: one says something else.
        RecapError: one is missing or damaged.
    """
    found = [read_json(file, Finished) for file in files]
    for file, each in zip(files, found, strict=True):
        if each != found[0]:
            differs = sorted(key for key, text in each.header.items() if found[0].header.get(key) != text)
            raise FeatureError(
                f"{file}: its {', '.join(differs) or 'images'} differ from those of {files[0]}; delete both and make "
                "all parts on machines of one kind, or set `extraction_parts: 1`"
            )
    return found[0]
