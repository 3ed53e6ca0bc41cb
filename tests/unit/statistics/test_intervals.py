"""Percentile intervals over images."""

import numpy as np
import pytest

from recap.statistics.intervals import percentile_interval

pytestmark = pytest.mark.seconds


def test_an_interval_is_that_of_the_normal_mean_and_the_same_on_every_call():
    values = np.random.default_rng(0).normal(0.5, 0.1, 1000)
    low, high = percentile_interval(values)
    half = 1.96 * values.std(ddof=1) / 1000**0.5
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=half / 5)
    assert percentile_interval(values) == (low, high)


def test_one_image_has_no_interval_and_equal_images_have_one_of_no_width():
    assert percentile_interval([0.3]) is None
    assert percentile_interval([0.5, 0.5, 0.5]) == (0.5, 0.5)
