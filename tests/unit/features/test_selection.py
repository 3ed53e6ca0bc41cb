"""Which proposals become regions."""

import numpy as np
import pytest
import torch

from recap.features.detectors import choose, intersection_over_union, rising_suppression, suppressed_confidence


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


def test_overlap_of_known_boxes():
    corners = torch.tensor([[0, 0, 2, 2], [1, 0, 3, 2], [5, 5, 6, 6.0]])
    expected = torch.tensor([[1, 1 / 3, 0], [1 / 3, 1, 0], [0, 0, 1.0]])
    torch.testing.assert_close(intersection_over_union(corners), expected)


@pytest.mark.parametrize(
    ("threshold", "least", "most", "kept"),
    [(0.5, 1, 9, [3, 0]), (0.5, 3, 9, [3, 0, 1]), (0, 1, 2, [3, 0]), (1, 9, 9, [3, 0, 1, 2])],
)
def test_between_least_and_most_regions(threshold, least, most, kept):
    order, count = choose(torch.tensor([0.6, 0.3, 0.2, 0.9]), threshold=threshold, least=least, most=most)
    assert order[: int(count)].tolist() == kept
