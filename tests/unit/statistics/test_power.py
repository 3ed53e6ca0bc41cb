"""How many seeds it takes until a difference is marked."""

import numpy as np
import pytest
from scipy import stats

from recap.statistics.comparison import (
    MOST,
    Sample,
    compare_rows,
    correct,
    least_difference,
    seeds_needed,
)
from recap.statistics.results import CellResult, RowResult


@pytest.mark.parametrize(("seeds", "difference"), [(2, 5.7), (5, 2.0)])
def test_the_least_difference_is_found_in_four_of_five_drawn_tables(seeds, difference):
    assert least_difference(seeds, comparisons=1) == pytest.approx(difference, abs=0.05)
    drawn = np.random.default_rng(1).normal(size=(2, 4000, seeds))
    drawn[1] += least_difference(seeds, comparisons=1)
    found = stats.ttest_ind(drawn[0], drawn[1], axis=1).pvalue < 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.02)


def rows(*runs, images=200):
    """A baseline and other rows of CIDEr, each with its runs; images spread by 0.1."""
    random = np.random.default_rng(0)
    noise = random.normal(0, 0.1, images)
    family = []
    for values in runs[1:]:
        mean = float(np.mean(values) - np.mean(runs[0]))
        own = Sample((0.5 + mean + noise).tolist(), list(values))
        family.append(compare_rows("CIDEr", Sample([0.5] * images, list(runs[0])), own))
    found = []
    for number, (values, tests) in enumerate(zip(runs, [None, *correct(family)], strict=True)):
        of_seeds = {str(seed): value for seed, value in enumerate(values)}
        cell = CellResult(values=of_seeds, n=len(values), comparison=tests)
        found.append(RowResult(id=f"r{number}", label=f"row {number}", cells={"CIDEr": cell}))
    return found


def test_the_largest_unmarked_difference_is_named_with_more_seeds_than_there_were():
    found = seeds_needed(rows((0.50, 0.54), (0.53, 0.56), (0.58, 0.63)), comparisons=2)
    assert found.row == "row 2" and found.difference == pytest.approx(0.085)
    assert 2 < found.seeds < 10


def test_what_images_do_not_support_no_number_of_seeds_marks():
    found = seeds_needed(rows((0.50, 0.54), (0.515, 0.535), images=20), comparisons=1)
    assert found.seeds is None
    assert seeds_needed(rows((0.5, 1.5), (0.6, 1.5)), comparisons=1).seeds is None  # above MOST
    assert MOST == 100


def test_an_ensemble_and_what_is_marked_are_not_waited_for():
    assert seeds_needed(rows((0.50, 0.54), (0.9,)), comparisons=1) is None
    marked = rows((0.50, 0.501, 0.502), (0.7, 0.701, 0.702))
    assert marked[1].cells["CIDEr"].comparison.mark == 1
    assert seeds_needed(marked, comparisons=1) is None
