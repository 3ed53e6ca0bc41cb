"""Backbones that the settings name have the shapes, constants and widths of vectors that timm
says."""

import pytest
import torch

from helpers.plans import PARAMS
from recap.features.backbones import create, timm_library
from recap.features.grid import CropEncoder, as_maps
from recap.settings.features import CropFeatures
from recap.settings.params import load_named, names

pytestmark = pytest.mark.seconds

SLOW = pytest.mark.slow
NAMED = {  # one of each family and use
    "beit_l_grid": (1024, 14),
    "clip_rn50_crops": (1024,),
    "clip_rn50_grid": (2048, 7),
    "clip_vit_b32_crops": (512,),
    "clip_vit_l14_336_grid": (1024, 24),
    "convnext_l_crops": (1536,),
    "dinov2_b_grid": (768, 16),
    "siglip_b16_grid": (768, 14),
    "swin_l_384_grid": (1536, 12),
}
CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


# of each way to a vector: pooled, projected, tokens
QUICK = ("clip_rn50_crops", "clip_vit_b32_crops", "dinov2_b_grid")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else SLOW) for name in NAMED]
)
def test_named_backbone_gives_the_shape_that_the_papers_say(name):
    spec = load_named(PARAMS, "features", name)
    assert spec.weights == "pretrained"
    config = timm_library().models.get_pretrained_cfg(spec.backbone)
    # DINOv2 was trained at 518 pixels; its position embeddings are resampled.
    assert config.input_size == (3, spec.image_size, spec.image_size) or name == "dinov2_b_grid"
    half = "beit" in name or "siglip" in name
    assert (config.mean, config.std) == (HALF if half else CLIP if "clip" in name else IMAGENET)
    assert "quickgelu" in spec.backbone or "clip" not in name or "vit" not in name
    with torch.device("meta"):
        model = create(spec.model_copy(update={"weights": "random"}))
        result = model.forward_features(torch.empty(2, 3, spec.image_size, spec.image_size))
        if spec.kind == "crops":
            shape = model.forward_head(result, pre_logits=spec.embedding == "pooled").shape
            assert shape == (2, *NAMED[name])
            assert load_named(PARAMS, "features", spec.boxes).format == "bottom_up_tsv"
        else:
            width, side = NAMED[name]
            assert as_maps(result, model=model, backbone=spec.backbone).shape == (
                2,
                width,
                side,
                side,
            )
            assert side >= spec.grid


def test_clip_gives_its_projection_and_its_pooled_vector():
    name = "vit_base_patch32_clip_quickgelu_224.openai"
    crops = torch.randint(0, 256, (1, 224, 224, 3), dtype=torch.uint8)
    spec = CropFeatures(
        kind="crops", boxes="b", backbone=name, weights="random", embedding="projected"
    )
    encoder = CropEncoder(spec, weights=None, device=torch.device("cpu"))
    assert type(encoder.model.blocks[0].mlp.act).__name__ == "QuickGELU"
    projected = encoder.vectors(crops)
    encoder.spec = spec.model_copy(update={"embedding": "pooled"})
    pooled = encoder.vectors(crops)
    assert pooled.shape == (1, 768)
    with torch.inference_mode():
        assert torch.allclose(encoder.model.head(pooled), projected, atol=1e-5)


FEATURES = {name: load_named(PARAMS, "features", name) for name in names(PARAMS, "features")}
OF_TIMM = [name for name, settings in FEATURES.items() if settings.kind in ("grid", "crops")]


@SLOW
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
    unknown = [
        name for name, settings in FEATURES.items() if not settings.stored(FEATURES.__getitem__)
    ]
    assert unknown == []
