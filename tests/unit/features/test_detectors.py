"""The detectors are those of their releases:
names and shapes of tensors, layers, and what is done with the weights."""

import importlib.util
import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from helpers.detector_layouts import released_layout
from helpers.plain_bottom_up import region_vectors
from helpers.refusals import refused
from recap.core.errors import FeatureError
from recap.features import detectron
from recap.features.detectors import Detector, Segmenter
from recap.features.detectron import DETECTORS, AttributeHead, CaffeStem, caffe_anchors
from recap.settings.features import RegionFeatures, SegmentFeatures

ABSENT = importlib.util.find_spec("detectron2") is None
CPU = torch.device("cpu")
VISUAL_GENOME = ("bottom_up_r101_c4", "grid_feats_x101_c5")


def needs_detectron(test):
    """Mark a test that builds a detector, which takes seconds."""
    reason = "detectron2 is not installed (docs/guides/detectron2.md says how to build it)"
    return pytest.mark.slow(pytest.mark.skipif(ABSENT, reason=reason)(test))


def spec(detector, **changes):
    few = {"proposals": 30, "short_side": 96}  # a detector's time is that of its proposals
    return RegionFeatures(
        **{"kind": "regions", "detector": detector, "weights": "random", **few, **changes}
    )


def noise(size=(128, 96), seed=0):
    return Image.fromarray(
        np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    )


def detected(settings):
    """Return a detector and what it finds in one picture."""
    detector = Detector(settings, weights=None, device=CPU)
    (result,) = detector([detector.prepare(1, [noise()])])
    return detector, result


@pytest.mark.parametrize("detector", VISUAL_GENOME)
def test_released_attribute_tensors_are_those_of_our_head(detector):
    release = DETECTORS[detector]
    mapped = {
        detectron.mapped(name, release.names): shape
        for name, shape in released_layout(detector).items()
    }
    head = AttributeHead(
        classes=1600, attributes=400, size=release.attributes_from, none=release.no_attribute
    )
    ours = {name: list(tensor.shape) for name, tensor in head.state_dict().items()}
    prefix = "attribute_head."
    assert {
        name.removeprefix(prefix): shape
        for name, shape in mapped.items()
        if name.startswith(prefix)
    } == ours


@needs_detectron
@pytest.mark.parametrize("detector", VISUAL_GENOME)
def test_a_detector_has_the_tensors_of_its_release(detector):
    model = Detector(spec(detector), weights=None, device=CPU).model
    names = DETECTORS[detector].names
    released = {
        detectron.mapped(name, names): shape for name, shape in released_layout(detector).items()
    }
    assert {name: list(tensor.shape) for name, tensor in model.state_dict().items()} == released


@needs_detectron
def test_a_file_of_the_released_layout_loads_with_its_anchors(tmp_path):
    weights = {
        name: np.full(shape, 0.01, np.float32)
        for name, shape in released_layout("bottom_up_r101_c4").items()
    }
    sizes = [
        (size / ratio**0.5, size * ratio**0.5)
        for size in (64, 128, 256, 512)
        for ratio in (0.5, 1, 2)
    ]
    anchors = [[-width / 2, -height / 2, width / 2, height / 2] for width, height in sizes]
    weights["proposal_generator.anchor_generator.cell_anchors.0"] = np.array(anchors, np.float32)
    (tmp_path / "a.pkl").write_bytes(pickle.dumps({"model": weights, "__author__": "x"}))
    model = Detector(
        spec("bottom_up_r101_c4", weights="a.pkl"), weights=tmp_path / "a.pkl", device=CPU
    ).model
    assert all((tensor == np.float32(0.01)).all() for tensor in model.state_dict().values())
    with pytest.raises(FeatureError, match=r"a\.pkl: .*cell_anchors\.0' holds other numbers"):
        Detector(
            spec("bottom_up_r101_c4", weights="a.pkl", anchors="caffe"),
            weights=tmp_path / "a.pkl",
            device=CPU,
        )


@needs_detectron
def test_the_panoptic_model_has_the_tensors_of_its_release():
    model = Segmenter(
        SegmentFeatures(kind="segments", weights="random"), weights=None, device=CPU
    ).model
    ours = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    assert ours == released_layout("panoptic_fpn_r101")


@needs_detectron
@pytest.mark.parametrize("size", [(128, 96), (131, 97)])
def test_vectors_of_regions_are_those_of_the_released_network(tmp_path, size):
    settings = spec(
        "bottom_up_r101_c4",
        short_side=size[1],
        min_boxes=6,
        max_boxes=6,
        least_side=8,
        dtype="float32",
    )
    detector = Detector(settings, weights=None, device=CPU)
    picture = detector.prepare(1, [noise(size)])
    (result,) = detector([picture])
    boxes = torch.from_numpy(result.values["region/boxes"])
    expected = region_vectors(detector.model.state_dict(), picture.pixels, boxes)
    assert expected.abs().max() > 0.01
    torch.testing.assert_close(
        torch.from_numpy(result.values["region"]), expected, rtol=1e-4, atol=1e-5
    )


def test_the_stem_pools_whole_and_last_windows_without_padding():
    values = torch.arange(25.0).reshape(1, 1, 5, 5)
    stem = CaffeStem(torch.nn.Identity())
    assert stem(values).tolist() == [[[[12, 14], [22, 24]]]]
    assert stem(values[:, :, :4, :4]).tolist() == [[[[12, 13], [17, 18]]]]


def test_anchors_are_those_of_caffe():
    """Of its generator's published example (scales 8, 16, 32),
    whose boxes include their last pixel."""
    ours = (caffe_anchors() - torch.tensor([0, 0, 1, 1])).tolist()
    assert ours[1] == [-84, -40, 99, 55]
    assert ours[2] == [-176, -88, 191, 103]
    assert ours[5] == [-56, -56, 71, 71]
    assert ours[9] == [-36, -80, 51, 95]
    assert ours[11] == [-168, -344, 183, 359]


@needs_detectron
def test_anchors_of_caffe_end_at_the_last_pixel():
    settings = {"anchors": "caffe", "min_boxes": 30, "max_boxes": 30}
    detector, result = detected(spec("bottom_up_r101_c4", **settings))
    right, bottom = result.values["region/boxes"][:, 2:].max(0)
    assert (right, bottom) == (127, 95)
    anchors = dict(detector.model.named_buffers())[
        "proposal_generator.anchor_generator.cell_anchors.0"
    ]
    assert torch.equal(anchors, caffe_anchors())


@needs_detectron
def test_regions_with_a_short_side_are_dropped(tmp_path):
    sides = []
    for least in (0, 40):
        settings = spec("bottom_up_r101_c4", least_side=least, min_boxes=30, max_boxes=30)
        boxes = detected(settings)[1].values["region/boxes"]
        sides.append((boxes[:, 2:] - boxes[:, :2]).min())
    assert sides[0] < 38 < 39 <= sides[1]


@needs_detectron
@pytest.mark.parametrize("detector", [*VISUAL_GENOME, "faster_rcnn_r50_c4"])
def test_pictures_in_a_batch_have_the_features_that_they_have_alone(tmp_path, detector):
    settings = {"grid": 3, "dtype": "float32", "min_boxes": 5, "max_boxes": 9}
    extractor = Detector(spec(detector, **settings), weights=None, device=CPU)
    pictures = [extractor.prepare(number, [noise(seed=number)]) for number in range(3)]
    for together, picture in zip(extractor(pictures), pictures, strict=True):
        (alone,) = extractor([picture])
        assert (
            (alone.values["region/boxes"] >= 0)
            & (alone.values["region/boxes"] <= [128, 96, 128, 96])
        ).all()
        assert (together.image_id, together.size) == (alone.image_id, alone.size)
        same(together, alone)


@needs_detectron
@pytest.mark.parametrize("form", ["occupancy", "segments"])
def test_segments_in_a_batch_are_those_of_pictures_alone(tmp_path, form):
    settings = SegmentFeatures(kind="segments", weights="random", form=form, short_side=96, grid=3)
    segmenter = Segmenter(settings, weights=None, device=CPU)
    pictures = [segmenter.prepare(number, [noise((100, 70), number)]) for number in range(3)]
    for together, picture in zip(segmenter(pictures), pictures, strict=True):
        same(together, segmenter([picture])[0])


def same(result, expected):
    """Compare features within what products of other sizes may differ by:
    1e-3 of the largest, 0.01 pixels."""
    assert result.values.keys() == expected.values.keys()
    for name, array in expected.values.items():
        largest = np.abs(array).max()
        tolerance = 0.01 if name.endswith("/boxes") else 1e-3 * largest
        np.testing.assert_allclose(result.values[name], array, rtol=0, atol=tolerance, err_msg=name)


@needs_detectron
def test_vectors_are_fetched_in_the_type_that_is_stored(tmp_path):
    detector, result = detected(spec("faster_rcnn_r50_c4", min_boxes=5, max_boxes=5))
    assert result.values["region"].dtype == np.float16
    detector.model.roi_heads.res5[2].conv3.norm.bias += 1e6
    (result,) = detector([detector.prepare(1, [noise()])])
    # which the store then refuses with what to do
    assert result.values["region"].dtype == np.float32


@pytest.mark.gpu
@needs_detectron
@pytest.mark.parametrize("detector", VISUAL_GENOME)
def test_a_gpu_gives_regions_of_pictures_in_a_batch(tmp_path, detector):
    settings = {"grid": 3, "min_boxes": 5, "max_boxes": 5}
    extractor = Detector(spec(detector, **settings), weights=None, device=torch.device("cuda"))
    result = extractor([extractor.prepare(number, [noise(seed=number)]) for number in range(3)])
    assert [each.image_id for each in result] == [0, 1, 2]
    for each in result:
        assert (each.values["region"].shape, each.values["grid"].shape) == ((5, 2048), (9, 2048))
        assert each.values["region"].dtype == each.values["grid"].dtype == np.float16
        assert np.isfinite(each.values["region"]).all()
        assert (
            (each.values["region/boxes"] >= 0) & (each.values["region/boxes"] <= [128, 96, 128, 96])
        ).all()


class Small(torch.nn.Module):
    """Two classes, one of them with an attribute, and anchors that no checkpoint holds."""

    def __init__(self):
        super().__init__()
        self.roi_heads = torch.nn.Module()
        self.roi_heads.box_predictor = torch.nn.ModuleDict(
            {"cls_score": torch.nn.Linear(1, 3), "bbox_pred": torch.nn.Linear(1, 8)}
        )
        self.anchors = torch.nn.Module()
        self.anchors.register_buffer("cell_anchors", torch.ones(2, 4), persistent=False)


def small_weights(scores=3, deltas=12, **more):
    prefix = "roi_heads.box_predictor."
    sizes = {"cls_score": scores, "bbox_pred": deltas}
    weights = {
        f"{prefix}{name}.weight": torch.arange(float(size))[:, None] for name, size in sizes.items()
    }
    return (
        weights
        | {f"{prefix}{name}.bias": torch.arange(float(size)) for name, size in sizes.items()}
        | more
    )


def test_a_background_that_is_first_in_the_file_is_last_in_ours(tmp_path):
    model = Small()
    save_file(small_weights(), tmp_path / "a.safetensors")
    detectron.load(model, tmp_path / "a.safetensors", key_map={}, background_first=True)
    predictor = model.roi_heads.box_predictor
    assert predictor["cls_score"].bias.tolist() == [1, 2, 0]
    assert predictor["bbox_pred"].bias.tolist() == [4, 5, 6, 7, 8, 9, 10, 11]
    with refused(FeatureError, "bbox_pred.weight'", "[12, 1]", "[8, 1]"):
        detectron.load(model, tmp_path / "a.safetensors", key_map={})


def test_anchors_in_a_file_must_be_those_of_the_settings(tmp_path):
    for value, named in ((1.0, None), (2.0, "'anchors.cell_anchors'")):
        more = {"anchors.cell_anchors": torch.full((2, 4), value)}
        save_file(small_weights(deltas=8, **more), tmp_path / "a.safetensors")
        if named is None:
            detectron.load(Small(), tmp_path / "a.safetensors", key_map={})
        else:
            with refused(FeatureError, "a.safetensors", named, "`anchors`"):
                detectron.load(Small(), tmp_path / "a.safetensors", key_map={})


def test_attributes_that_are_not_asked_for_are_left_out(tmp_path):
    names = DETECTORS["grid_feats_x101_c5"].names
    more = {"roi_heads.attribute_predictor.obj_embed.weight": torch.ones(3, 2)}
    save_file(small_weights(deltas=8, **more), tmp_path / "a.safetensors")
    detectron.load(Small(), tmp_path / "a.safetensors", key_map=names, unused=["attribute_head."])
    with refused(FeatureError, "'attribute_head.embedding.weight'"):
        detectron.load(Small(), tmp_path / "a.safetensors", key_map=names)
