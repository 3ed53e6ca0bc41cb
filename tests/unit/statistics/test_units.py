"""One t-test over runs, images and pairs, and what a printed p implies in each."""

import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks.units import UNITS, implied_deviation
from scipy import stats

PAGE = (Path(__file__).parents[3] / "docs" / "development" / "zodiac_p_values.md").read_text(
    encoding="utf-8"
)
# | extractor | gate | metric | difference | p | runs | images | pairs | explained by |
LINE = re.compile(
    r"^\| [^|]+ \| (?:sigmoid|tanh) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \| (\S+) \| "
    r"([^|]+) \|$",
    re.M,
)
RANGE = re.compile(r"^\| (\S+) \| (\S+) to (\S+) \| (\S+) to (\S+) \| (\S+) to (\S+) \|$", re.M)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("p", [0.03, 1e-6, 8e-87])
def test_scores_of_the_implied_deviation_have_the_printed_p(unit, p):
    deviation = implied_deviation(2.1, p, unit=unit, runs=5, images=5000)
    if unit == "runs":
        t, degrees = 2.1 / (deviation * (2 / 5) ** 0.5), 8
    else:
        count = 5000 if unit == "images" else 25000
        t, degrees = 2.1 / (deviation / count**0.5), count - 1
    assert 2 * stats.t.sf(t, degrees) == pytest.approx(p, rel=1e-6)


def test_the_page_computes_what_it_says():
    ranges = {name: np.array(ends, float).reshape(3, 2) for name, *ends in RANGE.findall(PAGE)}
    lines = LINE.findall(PAGE)
    assert len(lines) == 27 and set(ranges) == {"B-1", "CIDEr"}
    for metric, difference, p, *implied, explained in lines:
        result = [
            implied_deviation(float(difference), float(p), unit=unit, runs=5, images=5000)
            for unit in UNITS
        ]
        assert [float(text) for text in implied] == pytest.approx(result, rel=0.01)
        fits = [
            unit
            for unit, value, (low, high) in zip(UNITS, result, ranges[metric], strict=True)
            if low <= value <= high
        ]
        assert explained.strip() == (", ".join(fits) or "none")
