"""Cells of another store's grid, pooled over areas of the picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

from pydantic import Field, PositiveInt, model_validator

from recap.settings.features import FEATURES, FeaturesConfig
from recap.settings.features.stored import BOX_BYTES, StoredStream
from recap.settings.outside import Name

BOXES = "boxes.json"  # of a data set that knows what is where in its pictures


@FEATURES.register
class PooledFeatures(FeaturesConfig):
    """Regions or segments without a detector: true areas of the built-in scenes, or cells merged by similarity."""

    extractor: ClassVar[str] = "recap.features.pooled:extract_pooled"
    from_pictures: ClassVar[bool] = False
    has_boxes: ClassVar[bool] = True
    no_encoder: ClassVar[str] = "they are pooled from the store of other features, and a photo brings none"

    kind: Literal["pooled"]
    cells: Name = Field(description="name of the features whose store has the grid")
    areas: Literal["boxes", "masks", "occupancy", "merged"] = Field(
        description="true boxes of the objects (stream `region`); their true masks and the ground (`segment`); the "
        "share of each kind of object and ground in each cell (`segment`, without boxes); or neighboring cells that "
        "are alike (`region`)"
    )
    regions: PositiveInt | None = Field(None, description="for merged: so many groups of cells that are alike")

    @model_validator(mode="after")
    def _counts_fit(self) -> PooledFeatures:
        if (self.areas == "merged") != (self.regions is not None):
            raise ValueError("`regions` goes with areas 'merged', and with no others")
        return self

    def cells_from(self) -> str | None:
        """Return the name of the features whose grid is pooled."""
        return self.cells

    def products(self) -> tuple[str, ...]:
        """Return the file that says what is where, for true areas."""
        return () if self.areas == "merged" else (BOXES,)

    def stored(self, named: Callable[[str], FeaturesConfig]) -> Mapping[str, StoredStream]:
        """Return one stream: of cells for occupancy, else of pooled vectors as wide as the cells'."""
        cells = named(self.cells).stored(named).get("grid")
        if self.areas == "occupancy":
            return {"segment": StoredStream(cells.vectors, self.vector_width)} if cells and self.vector_width else {}
        vectors = self.regions or self.vector_count
        if cells is None or vectors is None:
            return {}
        return {"segment" if self.areas == "masks" else "region": StoredStream(vectors, cells.width, BOX_BYTES)}
