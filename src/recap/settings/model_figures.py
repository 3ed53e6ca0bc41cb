"""Settings of figures of trained models, or of what a table's models are made from, which it lists under `figures`.

Each kind is a `ModelFigure`, registered with `FIGURES`. Here are those that any model may be drawn by; those of a paper
are in its folder. A module named in RECAP_PLUGINS (`recap.core.plugins`) adds kinds in the same way.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt

from recap.settings.base import Strict, neutral
from recap.settings.kinds import Kinds

FIGURES = Kinds("recap.papers")
Split = Literal["val", "test"]


class ModelFigure(Strict, ABC):
    """Settings of a kind of figure; `FIGURES.register` makes a subclass with `kind: Literal[NAME]` known as NAME.

    Attributes:
        implementation: the function that makes it, "package.module:function", imported when it is drawn. It is called
            with these settings, a `recap.evaluation.figure.DrawnModels` and the path of each file in `files`.
        files: how the names of its files end -> title in the report of the profile; "": the file is not in it.
        caption: text below its files there.
        needs_images: whether photos are drawn.
        needs_models: whether trained models are drawn; without them the captions of the rows' data set are.
        most_rows: how many models it shows at most; None: any number.
    """

    implementation: ClassVar[str]
    files: ClassVar[Mapping[str, str]]
    caption: ClassVar[str]
    needs_images: ClassVar[bool] = True
    needs_models: ClassVar[bool] = True
    most_rows: ClassVar[int | None] = None

    kind: str
    rows: list[str] = Field([], description="ids of the table's rows (first seed) that it shows; none: all")
    name: str = Field(
        "", pattern=r"^[a-z0-9_]*$", description="between table and kind in the names of its files, if it has two"
    )
    scales: list[str] | None = neutral(None, description="scales at which it is drawn; default: everywhere")

    def texts(self) -> list[str]:
        """Return the outside files of texts that it is drawn from, by their names below the profile's `inputs`."""
        return []


TableFigure = Annotated[ModelFigure, FIGURES]


class ShownImages(ModelFigure):
    """A figure of some images and their captions."""

    image_ids: list[int] | None = Field(None, description="images (default: some of the test split, always the same)")
    count: PositiveInt = Field(3, description="number of test images where none are named")
    beam: PositiveInt = Field(3, description="beam size of the search")


@FIGURES.register
class AttentionFigure(ShownImages):
    """The attention over the image behind each token of a caption."""

    implementation: ClassVar[str] = "recap.evaluation.attention_figure:draw_attention"
    files: ClassVar[Mapping[str, str]] = {"attention.png": "attention"}
    caption: ClassVar[str] = (
        "Where the models look while they say each word: bright where the attention is high, the strongest cell "
        "outlined in red."
    )

    kind: Literal["attention"]


@FIGURES.register
class OtherImagesFigure(ModelFigure):
    """Whether models look: the loss of references with their own images and with others."""

    implementation: ClassVar[str] = "recap.evaluation.other_images:compare_images"
    files: ClassVar[Mapping[str, str]] = {"other_images.json": "loss with exchanged images"}
    caption: ClassVar[str] = (
        "The loss of reference captions with their own images and with those of others, and the paired test of the "
        "difference over images. A model that ignores the image loses nothing."
    )
    needs_images: ClassVar[bool] = False

    kind: Literal["other_images"]
    split: Split = Field("test", description="images")
