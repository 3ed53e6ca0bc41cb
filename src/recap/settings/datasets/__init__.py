"""Settings of data sets, one kind per file; a plug-in adds its own with ``@DATASETS.register``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field, PositiveFloat, PositiveInt

from recap.settings.datasets.counts import Counts
from recap.settings.kinds import Kinds
from recap.settings.outside import Name, NamesFiles
from recap.settings.vocabulary import VocabularyConfig, VocabularyRule

DATASETS = Kinds("recap.settings.datasets")
# The product with the pictures of a data set whose reader makes or collects them.
PICTURES = "images.zip"


@dataclass(frozen=True)
class WebPictures:
    """Pictures behind addresses: the TSV with these, and the shorter side to which larger ones are shrunk (0: none)."""

    tsv: str
    min_side: int


class DatasetConfig(NamesFiles):
    """What a data set's settings say of themselves; the base class of all kinds, which add ``kind`` and their keys.

    Attributes:
        reader: ``module:function`` of the :class:`recap.data.datasets.base.Reader` of this kind.
        products: files that the reader writes beside corpus.parquet.
        of_captions: keys that say nothing of the pictures and of their ids.
    """

    reader: ClassVar[str]
    products: ClassVar[tuple[str, ...]] = ()
    of_captions: ClassVar[tuple[str, ...]] = ("vocabulary",)
    kind: Name
    vocabulary: VocabularyConfig = VocabularyRule()
    # For `recap plan`, never in a dump: no file is made from them.
    counts: Counts | None = Field(None, exclude=True, description="images of each split, and captions of all")
    caption_words: PositiveFloat | None = Field(None, exclude=True, description="mean words of a caption")
    vocabulary_ids: PositiveInt | None = Field(
        None, exclude=True, description="ids of the vocabulary, special ones too"
    )

    def pictures_per_image(self) -> int:
        """Return how many pictures an image has, whose vectors stand in a row: the views of a study."""
        return 1

    def known_counts(self) -> Counts | None:
        """Return how many images and captions there are; None: the settings do not say."""
        return self.counts

    def pictures(self) -> dict[str, Any]:
        """Return what decides which pictures there are; data sets where it is equal share their feature stores."""
        return self.model_dump(exclude=set(self.of_captions))

    def picture_sources(self) -> list[str]:
        """Return the folders or archives of the pictures, relative to `inputs`; none: they are in PICTURES."""
        return [] if PICTURES in self.products else self.named_files()["images"]

    def web_pictures(self) -> dict[str, WebPictures]:
        """Return what pictures are fetched from the open web, by the list that says which, relative to `inputs`."""
        return {}


Dataset = Annotated[DatasetConfig, DATASETS]
