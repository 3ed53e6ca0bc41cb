"""Stand-ins for detectors without detectron2, a plug-in of rehearsals:
same settings and stores, made-up numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from recap.settings.features import FEATURES, RegionFeatures, SegmentFeatures

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from PIL.Image import Image

    from recap.features.extraction import ExtractionJob, Picture
    from recap.features.records import ImageFeatures


class _StandIn:
    """What both kinds of stand-ins have in place of an encoder."""

    extractor: ClassVar[str] = "rehearsal.stand_in:extract"
    encoder: ClassVar[str | None] = None
    no_encoder: ClassVar[str] = "a stand-in made them, and no detector"


@FEATURES.register
class StandInRegions(_StandIn, RegionFeatures):
    """Regions without a detector."""

    kind: Literal["stand_in_regions"]  # type: ignore[assignment]


@FEATURES.register
class StandInSegments(_StandIn, SegmentFeatures):
    """Segments without a panoptic model."""

    kind: Literal["stand_in_segments"]  # type: ignore[assignment]


def extract(spec: StandInRegions | StandInSegments, job: ExtractionJob) -> None:
    """Write the store of a data set."""
    from recap.core.hashing import sha256_file
    from recap.features.extraction import Encoder, Pictures, describe
    from recap.features.extraction import extract as write
    from recap.features.records import SEGMENT

    made_with = "a stand-in for detectron2, whose numbers mean nothing"

    class StandIn(Encoder):
        attributes = describe(
            spec, weights_sha256=sha256_file(job.inputs / spec.weights), made_with=made_with
        )
        streams = spec.streams() if isinstance(spec, StandInRegions) else (SEGMENT,)

        def __call__(self, pictures: Sequence[Picture]) -> Iterator[ImageFeatures]:
            features = found_regions if isinstance(spec, StandInRegions) else occupancy
            return (features(picture.image_id, picture.image, spec) for picture in pictures)

    write(spec, job, StandIn(), Pictures.find(job))


def found_regions(image_id: int, picture: Image, spec: Any) -> ImageFeatures:
    """Return boxes, vectors and classes in the form of `recap.features.detectors.Detector`."""
    from recap.features.records import GRID, REGION, ImageFeatures

    random = np.random.default_rng(image_id)
    count = int(random.integers(spec.min_boxes, min(spec.max_boxes, spec.min_boxes + 5) + 1))
    width = 2048 if spec.vectors == "pooled" else 1024
    low = random.uniform(0, 0.5, (count, 2))
    corners = np.concatenate([low, low + random.uniform(0.2, 0.5, (count, 2))], 1) * (
        *picture.size,
        *picture.size,
    )
    arrays: dict[str, np.ndarray] = {
        REGION: np.maximum(random.standard_normal((count, width)), 0).astype(np.float32),
        f"{REGION}/boxes": corners.astype(np.float32),
        f"{REGION}/classes": random.integers(spec.classes, size=count),
        f"{REGION}/class_scores": random.random(count).astype(np.float32),
    }
    if spec.attributes:
        arrays[f"{REGION}/attributes"] = random.integers(spec.attributes, size=count)
        arrays[f"{REGION}/attribute_scores"] = random.random(count).astype(np.float32)
    if spec.grid:
        arrays[GRID] = np.maximum(random.standard_normal((spec.grid**2, 2048)), 0).astype(
            np.float32
        )
    own = {name: array for name, array in arrays.items() if name.split("/")[0] in spec.streams()}
    return ImageFeatures(image_id, picture.size, own)


def occupancy(image_id: int, picture: Image, spec: Any) -> ImageFeatures:
    """Return shares of classes in cells, float32 [grid * grid, 133], as
    `recap.features.detectors.Segmenter` does."""
    from recap.features.detectors import CLASSES
    from recap.features.records import SEGMENT, ImageFeatures

    shares = (
        np.random.default_rng(image_id)
        .dirichlet(np.full(CLASSES, 0.05), spec.grid**2)
        .astype(np.float32)
    )
    return ImageFeatures(image_id, picture.size, {SEGMENT: shares})
