"""Tests, intervals and correction, against hand calculations and scipy."""

import math

import numpy as np
import pytest
from scipy import stats

from recap.statistics.comparison import compare_paired, holm, percentile_interval, welch


def test_paired_against_a_hand_calculation():
    # Differences 1, 2, 3, 4 tenths: mean 0.25,
    # sd sqrt(0.05 / 3), t = sqrt(15) with 3 degrees of freedom.
    result = compare_paired([0.5, 0.1, 0.2, 0.3], [0.6, 0.3, 0.5, 0.7])
    ratio = math.sqrt(15) / math.sqrt(3)
    # Student's distribution for 3 degrees
    by_hand = 1 - 2 / math.pi * (math.atan(ratio) + ratio / (1 + ratio**2))
    assert result.images == 4
    assert result.mean_difference == pytest.approx(0.25)
    assert result.t == pytest.approx(math.sqrt(15))
    assert result.p == pytest.approx(by_hand) == pytest.approx(0.030466, abs=1e-6)
    assert result.d_z == pytest.approx(0.25 / math.sqrt(0.05 / 3))
    assert (result.low, result.high) == pytest.approx((0.25 - 0.205426, 0.25 + 0.205426), abs=1e-6)
    assert result.p_wilcoxon == pytest.approx(2 / 16)  # exact: all four of one sign
    assert result.reason is None


def test_paired_equals_scipy_on_many_images():
    random = np.random.default_rng(3)
    first = random.random(200)
    second = first + random.normal(0.02, 0.1, 200).round(2)
    result = compare_paired(first.tolist(), second.tolist())
    differences = (second - first).round(12)
    assert (result.t, result.p) == pytest.approx(tuple(stats.ttest_rel(second, first)))
    assert result.p_wilcoxon == pytest.approx(stats.wilcoxon(differences).pvalue)
    interval = stats.ttest_rel(second, first).confidence_interval(0.95)
    assert (result.low, result.high) == pytest.approx((interval.low, interval.high))


@pytest.mark.parametrize(
    ("first", "second", "difference", "p_wilcoxon"),
    [
        # 0.1 + 0.2 differs from 0.3 in the last digit only
        ([0.1 + 0.2, 0.5, 0.7], [0.3, 0.5, 0.7], 0.0, None),
        ([0.1, 0.2, 0.3], [0.2, 0.3, 0.4], 0.1, 0.25),  # no spread to test
        ([0.1], [0.4], 0.3, None),
    ],
)
def test_images_that_allow_no_t_test_give_the_reason(first, second, difference, p_wilcoxon):
    result = compare_paired(first, second)
    assert (result.t, result.p, result.d_z) == (None, None, None) and result.reason
    assert result.mean_difference == pytest.approx(difference)
    assert result.p_wilcoxon == (p_wilcoxon and pytest.approx(p_wilcoxon))


def test_welch_against_a_hand_calculation():
    # Means 2 and 5, variances 1 and 4, three runs each:
    # t = 3 / sqrt(5 / 3), degrees = (25 / 9) / (17 / 18).
    result = welch([1, 2, 3], [3, 5, 7])
    assert result.t == pytest.approx(3 / math.sqrt(5 / 3))
    assert result.degrees == pytest.approx((25 / 9) / (17 / 18))
    assert result.p == pytest.approx(0.104479, abs=1e-6)
    assert (result.t, result.p) == pytest.approx(
        tuple(stats.ttest_ind([3, 5, 7], [1, 2, 3], equal_var=False))
    )


@pytest.mark.parametrize(
    ("first", "second"), [([0.5], [0.6, 0.7]), ([0.5, 0.6], [0.6]), ([0.5, 0.5], [0.6, 0.6])]
)
def test_runs_that_allow_no_welch_test_give_the_reason(first, second):
    result = welch(first, second)
    assert (result.t, result.degrees, result.p) == (None, None, None) and result.reason


def test_welch_with_one_constant_row_is_fine():
    result = welch([0.5, 0.5], [0.6, 0.7])
    # Only the second row's variance counts:
    # t = 0.15 / 0.05 with 1 degree of freedom (Cauchy's distribution).
    assert (result.t, result.degrees) == pytest.approx((3, 1))
    assert result.p == pytest.approx(1 - 2 / math.pi * math.atan(3))


@pytest.mark.parametrize(
    ("raw", "adjusted"),
    [
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.5, 0.6], [1.0, 1.0]),
        ([0.02, None, 0.01], [0.02, None, 0.02]),
        ([None], [None]),
        ([], []),
        ([0.04], [0.04]),
    ],
)
def test_holm_against_known_values(raw, adjusted):
    assert holm(raw) == [None if p is None else pytest.approx(p) for p in adjusted]


@pytest.mark.seconds
def test_an_interval_is_that_of_the_normal_mean_and_the_same_on_every_call():
    values = np.random.default_rng(0).normal(0.5, 0.1, 1000)
    low, high = percentile_interval(values)
    half = 1.96 * values.std(ddof=1) / 1000**0.5
    assert (low, high) == pytest.approx((values.mean() - half, values.mean() + half), abs=half / 5)
    assert percentile_interval(values) == (low, high)
