"""Settings of feature extractors, one kind per file; a plug-in adds its own with ``@FEATURES.register``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from recap.settings.base import neutral
from recap.settings.features.stored import StoredStream
from recap.settings.kinds import Kinds
from recap.settings.outside import Name, NamesFiles, NoFile, Outside
from recap.settings.vocabulary import HUB

FEATURES = Kinds("recap.settings.features")

# Weights: a file, unless they come from the hub, from a seed, or from a training on the data set's own boxes.
Weights = Annotated[str, Outside(but=("pretrained", "random", "boxes"))]
Activation = Literal["relu", "relu6", "gelu", "silu"]
Revision = Annotated[str, NoFile(), Field(pattern=r"^[0-9a-f]{40}$")]


class FeaturesConfig(NamesFiles):
    """What an extractor's settings say of themselves; the base class of all kinds, which add ``kind`` and their keys.

    Attributes:
        extractor: ``module:function`` of the :class:`recap.features.extraction.Extractor` of this kind.
        from_pictures: whether it reads the pictures of a data set.
        needs_detectron2: whether it runs in the environment that has detectron2.
        has_boxes: whether its stores hold the boxes of the vectors.
        encoder: ``module:function`` of the :class:`recap.share.photo_features.Encoder` of this kind, which makes the
            features of photos that belong to no data set; None where that cannot be.
        no_encoder: why it cannot be, the end of a sentence.
        EXECUTION: keys that say how an extractor works, not what it makes; they are no part of a store's identity.
    """

    extractor: ClassVar[str]
    from_pictures: ClassVar[bool] = True
    needs_detectron2: ClassVar[bool] = False
    has_boxes: ClassVar[bool] = False
    encoder: ClassVar[str | None] = None
    no_encoder: ClassVar[str] = "their class names no `encoder` of single photos"
    EXECUTION: ClassVar[frozenset[str]] = frozenset({"batch_size", "shard_size"})

    kind: Name
    dtype: Literal["float16", "float32"] = Field("float16", description="type of the stored values")
    shard_size: PositiveInt = Field(1000, description="images per shard: the unit of resuming")
    # Never in a dump: what is extracted does not depend on them.
    vector_width: PositiveInt | None = Field(None, exclude=True, description="numbers in a vector, for `recap plan`")
    vector_count: PositiveFloat | None = Field(
        None,
        exclude=True,
        description="vectors of a picture, for `recap plan`, where the other keys do not say: the mean, or the most",
    )

    def boxes_from(self) -> str | None:
        """Return the name of the features whose boxes are cut out, if any."""
        return None

    def cells_from(self) -> str | None:
        """Return the name of the features whose grid is pooled, if any."""
        return None

    def vectors_per_picture(self) -> int | None:
        """Return how many vectors each picture has in the main stream; None: the settings do not fix their number."""
        return None

    def stored(self, named: Callable[[str], Self]) -> Mapping[str, StoredStream]:
        """Return the streams of a store by name, the main one first; none where their size is not known.

        Args:
            named: name of features -> their settings, for what is made from other stores.
        """
        return {}

    def products(self) -> tuple[str, ...]:
        """Return the files that are read of those that a data set's reader writes beside the corpus."""
        return ()

    def trained_on(self) -> Literal["boxes", "captions"] | None:
        """Return what of the data set the weights are first trained on (`recap features pretrain` or `tune`), if so."""
        return None

    def hub(self) -> str | None:
        """Return ``hub:OWNER/NAME[@REVISION]`` of the weights if they come from the HuggingFace hub."""
        return None

    def targets(self) -> list[str]:
        """Return the objects, as ``module:object``, whose source decides what the stores hold."""
        return [self.extractor]

    def identity(self) -> dict[str, Any]:
        """Return what a store is made by, under the names that stores carry since their first version."""
        return self.model_dump(mode="json", by_alias=True, exclude=set(self.EXECUTION))

    def execution(self) -> dict[str, Any]:
        """Return how the extractor works."""
        return self.model_dump(mode="json", include=set(self.EXECUTION))


class TimmFeatures(FeaturesConfig):
    """What the kinds share that encode pictures by a timm model."""

    backbone: Name = Field(description="a timm model name")
    weights: Weights
    revision: Revision | None = neutral(
        None, description="for weights 'pretrained': commit of their repository in the hub; null: its newest"
    )

    @model_validator(mode="after")
    def _revision_is_of_the_hub(self) -> Self:
        if self.revision and self.weights != "pretrained":
            raise ValueError("`revision` goes with weights 'pretrained', and with no others")
        return self

    def hub(self) -> str | None:
        """Return where the hub has the weights, if they come from there."""
        pinned = f"@{self.revision}" if self.revision else ""
        return f"{HUB}timm/{self.backbone}{pinned}" if self.weights == "pretrained" else None


Features = Annotated[FeaturesConfig, FEATURES]
