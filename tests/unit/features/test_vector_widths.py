"""The width of vectors that the parameter files say is that of the backbone that they name."""

import pytest
import torch

from helpers.plans import PARAMS
from recap.features.backbones import timm_library
from recap.settings.params import load_named, names

FEATURES = {name: load_named(PARAMS, "features", name) for name in names(PARAMS, "features")}
OF_TIMM = [name for name, settings in FEATURES.items() if settings.kind in ("grid", "crops")]


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_TIMM)
def test_a_backbone_gives_vectors_of_the_width_that_is_said(name):
    settings = FEATURES[name]
    with torch.device("meta"):
        model = timm_library().create_model(settings.backbone, pretrained=False)
    stage = getattr(settings, "out_index", None)
    if getattr(settings, "embedding", None) == "projected":
        width = model.num_classes
    else:
        width = model.num_features if stage is None else model.feature_info[stage]["num_chs"]
    assert settings.vector_width == width


def test_every_store_of_the_shipped_features_has_a_known_size():
    unknown = [name for name, settings in FEATURES.items() if not settings.stored(FEATURES.__getitem__)]
    assert unknown == []
