import importlib.util
import pickle

import numpy as np
import pytest
import torch
from PIL import Image

from helpers.refusals import refused
from recap.core.errors import ConfigError, DamagedFeatures, FeatureError, MissingFeatures
from recap.features import detectron
from recap.features.detectors import (
    NOTHING,
    Detector,
    choose,
    occupancy,
    pooled,
    rising_suppression,
    suppressed_confidence,
)
from recap.features.detectron import AttributeHead
from recap.settings.features import RegionFeatures

DETECTRON = importlib.util.find_spec("detectron2") is not None


def test_attributes_are_probabilities_that_depend_on_the_class():
    head = AttributeHead(classes=5, attributes=4, size=6, none=True)
    vectors = torch.rand(3, 6)
    result = head(vectors, torch.tensor([0, 1, 5]))
    assert result.shape == (3, 4)
    assert ((result > 0) & (result.sum(1, keepdim=True) < 1)).all()
    assert not torch.equal(
        head(vectors[:1], torch.tensor([0])), head(vectors[:1], torch.tensor([1]))
    )
    result = AttributeHead(classes=5, attributes=4, size=6, none=False)(
        vectors, torch.tensor([0, 1, 5])
    )
    torch.testing.assert_close(result.sum(1), torch.ones(3))


def test_occupancy_is_the_share_of_each_class_in_each_cell():
    result = torch.zeros(4, 8, dtype=torch.int32)
    result[:2, :4], result[2:, :2], result[2:, 4:] = 1, 2, 3
    cells = occupancy(result, {1: 5, 2: 5, 3: 132}, grid=2)
    assert cells.shape == (4, 133)
    assert cells[:, 5].tolist() == [1, 0, 0.5, 0]
    assert cells[:, 132].tolist() == [0, 0, 0, 1]
    assert cells.sum() == 2.5


def test_segments_are_pooled_under_their_mask_with_tight_boxes():
    result = torch.zeros(64, 96, dtype=torch.int32)
    result[:32, 32:64], result[32:, :] = 7, 9
    maps = torch.zeros(1, 2, 4)
    maps[0, 0, 1] = 5.0
    maps[0, 1] = 2.0
    maps[0, :, 3] = 100.0  # the last column lies in the padding
    sizes = {"size": (64, 96), "padded": (64, 128)}
    values, corners, classes = pooled(result, {7: 3, 9: 90}, maps, **sizes).values()
    assert values[:, 0].tolist() == [5, 2]
    assert corners.tolist() == [[32, 0, 64, 32], [0, 32, 96, 64]]
    assert classes.tolist() == [3, 90]
    values, corners, classes = pooled(result, {}, maps, **sizes).values()
    assert (corners.tolist(), classes.tolist()) == ([[0, 0, 96, 64]], [NOTHING])


@pytest.mark.skipif(DETECTRON, reason="detectron2 is installed here: its absence cannot be tested")
def test_absent_detectron2_says_how_to_get_it(tmp_path):
    spec = RegionFeatures(kind="regions", detector="faster_rcnn_r50_c4", weights="random")
    with refused(ConfigError, "docs/guides/detectron2.md", "--sdm"):
        Detector(spec, weights=None, device=torch.device("cpu"))


class Runs:
    def __reduce__(self):
        return print, ("code was run",)


def test_weights_of_a_detector_hold_tensors_alone(tmp_path, capsys):
    model = torch.nn.Sequential(torch.nn.Linear(2, 3))
    weights = {
        "model": {"net.weight": np.ones((3, 2), np.float32), "net.bias": np.zeros(3, np.float32)}
    }
    (tmp_path / "a.pkl").write_bytes(pickle.dumps(weights))
    detectron.load(model, tmp_path / "a.pkl", key_map={"net.": "0."})
    assert (model[0].weight == 1).all()
    torch.save({"0.weight": torch.zeros(3, 2), "0.bias": torch.zeros(3)}, tmp_path / "b.pth")
    detectron.load(model, tmp_path / "b.pth", key_map={})
    assert (model[0].weight == 0).all()
    (tmp_path / "c.pkl").write_bytes(pickle.dumps({"x": Runs()}))
    torch.save({"0.weight": torch.zeros(2, 2), "0.bias": torch.zeros(3)}, tmp_path / "d.pth")
    for file, kind, named in [
        ("c.pkl", DamagedFeatures, ["builtins.print"]),
        ("a.pkl", FeatureError, ["'0.weight'", "`key_map`"]),
        ("d.pth", FeatureError, ["'0.weight'", "[2, 2]", "[3, 2]"]),
        ("none.pth", MissingFeatures, ["`weights`"]),
    ]:
        with refused(kind, file, *named):
            detectron.load(model, tmp_path / file, key_map={})
    assert "code was run" not in capsys.readouterr().out


def regions(detector, pixels):
    (result,) = detector([detector.prepare(1, [Image.fromarray(pixels)])])
    return result


@pytest.mark.skipif(
    not DETECTRON,
    reason="detectron2 is not installed (docs/guides/detectron2.md says how to build it)",
)
def test_the_first_layer_of_a_detector_is_computed_from_its_pooled_vectors(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8)
    settings = {
        "kind": "regions",
        "detector": "grid_feats_x101_c5",
        "weights": "random",
        "short_side": 120,
    }
    settings |= {"min_boxes": 5, "max_boxes": 5, "long_side": 200, "dtype": "float32"}
    pooled, layer = (
        Detector(
            RegionFeatures(**settings, vectors=vectors), weights=None, device=torch.device("cpu")
        )
        for vectors in ("pooled", "fc1")
    )
    before, after = (regions(each, noise).values for each in (pooled, layer))
    assert (before["region"].shape, after["region"].shape) == ((5, 2048), (5, 1024))
    first = layer.model.roi_heads.box_head.fc1
    expected = torch.relu(first(torch.from_numpy(before["region"]))).detach().numpy()
    np.testing.assert_allclose(after["region"], expected, rtol=1e-5, atol=1e-6)
    for name in ("region/boxes", "region/classes", "region/attributes"):
        np.testing.assert_array_equal(before[name], after[name])


def boxes(count, seed=0):
    rng = np.random.default_rng(seed)
    low = rng.uniform(0, 60, (count, 2))
    return torch.from_numpy(np.concatenate([low, low + rng.uniform(5, 50, (count, 2))], 1)).float()


def plain_suppression(corners, scores, overlap):
    """One class at a time, one box at a time."""
    result = np.zeros(len(corners))
    for column in scores.T:
        order, gone = list(np.argsort(-column, kind="stable")), set()
        for place, box in enumerate(order):
            if box in gone:
                continue
            result[box] = max(result[box], column[box])
            for other in order[place + 1 :]:
                a, b = corners[box], corners[other]
                wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
                shared = max(wide, 0) * max(high, 0)
                areas = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
                if shared / (areas - shared) > overlap:
                    gone.add(other)
    return result


@pytest.mark.parametrize("overlap", [0.1, 0.3, 0.7])
def test_suppression_of_all_classes_at_once_equals_one_by_one(overlap):
    corners, scores = boxes(25), torch.rand(25, 7, generator=torch.Generator().manual_seed(1))
    confidence, classes = suppressed_confidence(corners, scores, overlap=overlap)
    expected = plain_suppression(corners.numpy(), scores.numpy(), overlap)
    np.testing.assert_allclose(confidence, expected)
    alive = confidence > 0
    assert torch.equal(scores[alive, classes[alive]], confidence[alive])


@pytest.mark.parametrize("count", [5, 12, 25])
def test_suppression_rises_until_there_are_enough_regions(count):
    corners, scores = boxes(25), torch.rand(25, 7, generator=torch.Generator().manual_seed(1))
    confidence, classes = rising_suppression(corners, scores, count=count)
    best = scores.max(1).values
    for tenths in range(3, 10):
        expected = plain_suppression(corners.numpy(), best[:, None].numpy(), tenths / 10)
        if (expected > 0).sum() >= count:
            break
    np.testing.assert_allclose(confidence, expected)
    assert torch.equal(classes, scores.argmax(1))


@pytest.mark.parametrize(
    ("threshold", "least", "most", "kept"),
    [(0.5, 1, 9, [3, 0]), (0.5, 3, 9, [3, 0, 1]), (0, 1, 2, [3, 0]), (1, 9, 9, [3, 0, 1, 2])],
)
def test_between_least_and_most_regions(threshold, least, most, kept):
    order, count = choose(
        torch.tensor([0.6, 0.3, 0.2, 0.9]), threshold=threshold, least=least, most=most
    )
    assert order[: int(count)].tolist() == kept
