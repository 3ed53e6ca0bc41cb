"""How large the vectors of features are, known before any picture is read."""

from __future__ import annotations

from dataclasses import dataclass, replace

BOX_BYTES = 16  # four numbers of 4 bytes
NUMBER_BYTES = 4  # of a class, an attribute or a score


@dataclass(frozen=True)
class StoredStream:
    """One stream of a feature store.

    Attributes:
        vectors: of a picture.
        width: numbers in a vector.
        beside: bytes beside each vector: its box, class, score.
        at_most: pictures may have fewer vectors.
    """

    vectors: float
    width: int
    beside: int = 0
    at_most: bool = False

    def of_views(self, views: int) -> StoredStream:
        """Return the stream where an image has several pictures."""
        return replace(self, vectors=self.vectors * views)
