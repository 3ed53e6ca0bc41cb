"""When a table marks a difference: the joint test, and how often the mark is wrong on drawn
scores."""

import numpy as np
import pytest
from benchmarks.table_marks import Components, rates
from scipy import stats

from helpers.cases import cases
from recap.statistics.comparison import (
    Paired,
    Sample,
    TTest,
    compare_jointly,
    compare_rows,
    correct,
)

IMAGES = [0.1, 0.2, 0.3, 0.4], [0.31, 0.4, 0.52, 0.6]


def paired(t, p, images=300):
    return Paired(images, mean_difference=0.01, t=t, p=p)


def test_the_joint_test_is_clarks_min_f():
    t1, t2 = 4.0, 3.0
    joint = compare_jointly(paired(t1, 1e-4), TTest(t=t2, degrees=4.0, p=0.03))
    f1, f2 = t1**2, t2**2
    assert joint.t**2 == pytest.approx(f1 * f2 / (f1 + f2))
    assert joint.degrees == pytest.approx((f1 + f2) ** 2 / (f1**2 / 4.0 + f2**2 / 299))
    assert joint.p == pytest.approx(2 * stats.t.sf(joint.t, joint.degrees))
    assert joint.p > 0.03


def test_the_joint_p_is_never_below_those_of_images_and_runs():
    assert compare_jointly(paired(9.0, 1e-9), TTest(t=2.0, degrees=1.1, p=0.3)).p == 0.3
    assert compare_jointly(paired(0.0, 1.0), TTest(t=2.0, degrees=3, p=0.1)).p == 1.0


def test_the_joint_test_has_the_sign_of_the_difference_and_reasons():
    assert compare_jointly(paired(-9.0, 1e-9), TTest(t=-5.0, degrees=3.0, p=0.02)).t < 0
    assert (
        "opposite" in compare_jointly(paired(-9.0, 1e-9), TTest(t=5.0, degrees=3.0, p=0.02)).reason
    )
    assert (
        compare_jointly(paired(3.0, 0.01), TTest(reason="a row has only one run")).reason
        == "a row has only one run"
    )
    assert (
        compare_jointly(Paired(1, 0.1, reason="needs"), TTest(t=5.0, degrees=3.0, p=0.02)).reason
        == "needs"
    )


def test_a_mark_needs_every_unit():
    clear = compare_rows(
        "CIDEr", Sample(IMAGES[0], [0.25, 0.251]), Sample(IMAGES[1], [0.45, 0.451])
    )
    vague = compare_rows("CIDEr", Sample(IMAGES[0], [0.05, 0.45]), Sample(IMAGES[1], [0.25, 0.65]))
    for units, marked in ((["images"], [1, 1]), (["images", "runs", "both"], [1, 0])):
        family = correct([clear, vague], units=units)
        assert [comparison.mark for comparison in family] == marked


def components(training, *, images=200, profile=0.3, rest=0.4):
    """Normal components of one metric; ``training`` is the deviation that a training adds."""
    random = np.random.default_rng(5)
    left = random.normal(0, rest, (images, 6, 1))
    return Components(
        ("CIDEr",),
        np.array([[training**2]]),
        random.normal(0, profile, (images, 1)),
        (left - left.mean(axis=1, keepdims=True)) * (6 / 5) ** 0.5,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seeds", cases([1, 2, 3, 5, 10], few=[1, 3, 10]))
@pytest.mark.parametrize("ratio", cases([0.0, 0.5, 1.0, 3.0], few=[0.5, 1.0]))
def test_at_most_one_mark_in_twenty_is_wrong(seeds, ratio):
    """``ratio``: how much of the difference's standard error comes
    from trainings, for one from images."""
    images = components(0.0).errors(seeds)
    over_images = np.hypot(images["images"], images["rest"]) / 100
    parts = components(ratio * over_images * (seeds / 2) ** 0.5)
    tables = 600
    found = rates(
        parts, seeds=seeds, difference=0.0, tables=tables, random=np.random.default_rng(seeds)
    )
    likely = stats.binom.ppf(0.999, tables, 0.05) / tables  # 7.8 %
    assert found["mark"]["one"] <= (likely if seeds > 1 else 0)
    if ratio >= 1:
        assert found["images"]["one"] > likely  # the rule of tables that tested images alone
    if seeds == 10 and ratio == 1:
        assert found["each"]["one"] > likely  # why both tests together are not enough


@pytest.mark.slow
def test_a_difference_of_five_standard_errors_is_marked_with_enough_seeds():
    parts = components(0.02)
    error = sum(value**2 for value in parts.errors(5).values()) ** 0.5 / 100
    found = rates(parts, seeds=5, difference=5 * error, tables=200, random=np.random.default_rng(1))
    assert found["mark"]["one"] > 0.8
