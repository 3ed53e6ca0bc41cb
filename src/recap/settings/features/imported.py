"""Feature files that others made, and the formats that are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from recap.core.plugins import Registry
from recap.settings.base import neutral
from recap.settings.features import FEATURES, FeaturesConfig
from recap.settings.features.stored import BOX_BYTES, StoredStream
from recap.settings.names import OneOf
from recap.settings.outside import OutsideFile

# Each opens files of its format as a :class:`recap.features.importers.base.Source`.
FORMATS = Registry(
    "format",
    {
        "bottom_up_tsv": "recap.features.importers.bottom_up_tsv:BottomUpTsv",
        "m2_hdf5": "recap.features.importers.m2_hdf5:M2Hdf5",
        "grid_feats_pth": "recap.features.importers.folders:GridFeatsPth",
        "vinvl_tsv": "recap.features.importers.vinvl_tsv:VinvlTsv",
        "npz_folder": "recap.features.importers.folders:NpzFolder",
    },
)


@FEATURES.register
class ImportedFeatures(FeaturesConfig):
    """Features that others extracted: docs/reference/feature_files.md describes the formats."""

    extractor: ClassVar[str] = "recap.features.importers.job:extract"
    no_encoder: ClassVar[str] = "they are files that others extracted, and what extracted them is not here"
    from_pictures: ClassVar[bool] = False
    has_boxes: ClassVar[bool] = True
    renamed_keys: ClassVar[dict[str, str]] = {"form": "format"}

    kind: Literal["imported"]
    format: Annotated[str, OneOf(FORMATS.names)] = Field(serialization_alias="form")
    sources: list[OutsideFile] = Field(min_length=1, description="files or a folder, relative to `inputs`")
    grid: NonNegativeInt = Field(7, description="for grid_feats_pth: cells per edge; 0 keeps the map as it is")
    rows: PositiveInt | None = Field(None, description="keep only the first N regions")
    names: Literal["files", "ids"] | None = neutral(
        None,
        description="what the files call an image by: the name of its picture, or its image id; null: told by both",
    )
    clip_boxes: bool = Field(False, description="clip boxes to the picture")
    damaged: list[int] = neutral(
        [],
        description="of the TSV formats: ids of images with damaged lines; a whole line of the same image is taken, an "
        "image without one is left out, and as many lines without an id are passed over",
    )

    def outside_files(self) -> list[str]:
        """Return the sources, and the index that must be beside a TSV of VinVL's form."""
        indexed = self.sources if self.format == "vinvl_tsv" else []
        return [*super().outside_files(), *(str(PurePosixPath(name).with_suffix(".lineidx")) for name in indexed)]

    def targets(self) -> list[str]:
        """Return the importer, and what reads this format."""
        return [self.extractor, FORMATS.target(self.format)]

    def vectors_per_picture(self) -> int | None:
        """Return the number of cells, if the files hold maps that are averaged to a grid."""
        return self.grid**2 or None if self.format == "grid_feats_pth" else None

    def stored(self, named: Callable[[str], FeaturesConfig]) -> Mapping[str, StoredStream]:
        """Return the stream of cells, or of at most so many regions with their boxes."""
        cells, regions = self.vectors_per_picture(), self.rows or self.vector_count
        if self.vector_width is None or not (cells or regions):
            return {}
        if cells:
            return {"grid": StoredStream(cells, self.vector_width)}
        return {"region": StoredStream(regions or 0, self.vector_width, BOX_BYTES, at_most=True)}
