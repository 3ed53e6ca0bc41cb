"""The number that chooses a run's weights: CIDEr-D of the validation captions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from recap.evaluation.decode import best, decode_candidates
from recap.metrics.rewards import CiderD
from recap.models.base import Captioner
from recap.runs.inputs import ReadsImages
from recap.settings import DecodingSettings, Stage
from recap.training.distributed import Group


def validator(
    model: Captioner,
    settings: Stage,
    features: ReadsImages,
    references: Mapping[int, list[list[int]]],
    max_length: int,
    group: Group,
    name: str,
) -> Callable[[], float]:
    """Return a function that decodes the validation images and returns their mean CIDEr-D (end token not counted).

    Each process decodes its shard of the images; its number is the shard's sum over the count of all images.
    Progress is shown under the run's name.
    """
    scorer, images = CiderD(references), group.shard(sorted(references))
    decoding = DecodingSettings(beam=settings.validation_beam, max_length=max_length)

    def validate_model() -> float:
        found = decode_candidates(model, features, images, decoding, device=group.device, name=f"{name}, validation")
        captions = best(found)
        return float(scorer.score(images, [captions[image] for image in images]).sum() / len(references))

    return validate_model
