"""How many seeds it takes until a difference is marked, estimated from the runs of a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Any

from recap.settings.tables import column_info
from recap.statistics.comparison import SIGNIFICANT

POWER = 0.8
MOST = 100  # seeds
_METRIC = "CIDEr"  # of a table that has it; else its first column with an unmarked difference


def seeds_needed(rows: Sequence[dict[str, Any]], *, comparisons: int) -> dict[str, Any] | None:
    """Return how many seeds would mark the largest unmarked difference of one metric.

    Args:
        rows: described rows of a table, compared and marked.
        comparisons: number of comparisons in the family, for Holm's correction.

    Returns:
        ``metric``, ``row`` (its label), ``difference`` and ``seeds`` (None: more than ``MOST``); None where every
        difference is marked, or no row has several runs that differ.
    """
    metrics = list(rows[0]["cells"])
    for metric in sorted(metrics, key=lambda name: (name != _METRIC, metrics.index(name))):
        cells = [(row["label"], row["cells"][metric]) for row in rows]
        open_ = [(label, cell["comparison"]) for label, cell in cells if _is_open(cell["comparison"])]
        spread = _spread(cell for _, cell in cells)
        if not open_ or not spread:
            continue
        label, largest = max(open_, key=lambda found: abs(found[1]["difference"]))
        seeds = _seeds(largest, spread, SIGNIFICANT / comparisons, more_than=max(cell["n"] for _, cell in cells))
        return {"metric": metric, "row": label, "difference": largest["difference"], "seeds": seeds}
    return None


def add_seeds_for_printed(rows: Sequence[dict[str, Any]], *, baseline: str, comparisons: int) -> None:
    """Add to each comparison how many seeds would tell a difference from the baseline of the printed size.

    ``seeds_for_printed`` has ``difference`` (printed, in the unit of the print) and ``seeds`` (None: more than
    ``MOST``). A comparison without a test over runs, or of rows of which one has no printed number, gets none.

    Args:
        rows: described rows of a table, compared; changed in place.
        baseline: id of the baseline row.
        comparisons: number of comparisons in the family, for Holm's correction.
    """
    theirs = next(row["cells"] for row in rows if row["id"] == baseline)
    for metric, base in theirs.items():
        spread = _spread(row["cells"][metric] for row in rows)
        for cell in (row["cells"][metric] for row in rows):
            comparison, printed = cell["comparison"], (base["printed_percent"], cell["printed_percent"])
            if None in printed or not spread or not _is_tested(comparison):
                continue
            difference, paired = round(printed[1] - printed[0], 6), comparison["paired"]
            error = Errors(abs(paired["mean_difference"] / paired["t"]), paired["images"], spread)
            size = abs(difference) / column_info(metric).scale
            seeds = error.seeds_for(size, SIGNIFICANT / comparisons) if size else None
            comparison["seeds_for_printed"] = {"difference": difference, "seeds": seeds}


def least_difference(seeds: int, *, comparisons: int) -> float:
    """Return the true difference that Welch's test finds with 80 % power, in standard deviations of one run."""
    from scipy import optimize

    level = SIGNIFICANT / comparisons
    found = optimize.brentq(lambda size: _power(size * (seeds / 2) ** 0.5, 2 * seeds - 2, level) - POWER, 0.01, 1e4)
    return float(found)


def _spread(cells: Iterable[Mapping[str, Any]]) -> float:
    """Return the variance between runs, which the rows share: that of one row's few runs says little."""
    runs = [list(cell["values"].values()) for cell in cells if cell["n"] > 1]
    return fmean(variance(values) for values in runs) if runs else 0.0


def _is_open(comparison: dict[str, Any] | None) -> bool:
    """Return whether a comparison is tested and has no mark."""
    return comparison is not None and _is_tested(comparison) and not comparison["mark"]


def _is_tested(comparison: dict[str, Any] | None) -> bool:
    """Return whether a comparison has errors over images and over runs (an ensemble is one run)."""
    if comparison is None or comparison["paired"] is None:
        return False
    return bool(comparison["paired"]["t"] and comparison["welch"]["t"])


def _seeds(comparison: dict[str, Any], spread: float, level: float, *, more_than: int) -> int | None:
    """Return the least number of seeds above those that were not enough with which all three tests have 80 % power."""
    paired, difference = comparison["paired"], abs(comparison["difference"])
    error = Errors(difference / abs(paired["t"]), paired["images"], spread)
    return error.seeds_for(difference, level, more_than=more_than)


@dataclass(frozen=True)
class Errors:
    """What a difference of two rows errs by, in the unit of the difference.

    Attributes:
        over_images: standard error of the difference over images; it stays as it is, though part of it shrinks with
            more seeds.
        images: number of images.
        spread: variance between runs of one row.
        rows: how many rows vary: 2, or 1 against a fixed number.
    """

    over_images: float
    images: int
    spread: float
    rows: int = 2

    def power(self, size: float, level: float, seeds: int) -> float:
        """Return the least power that the three tests have for a true difference with ``seeds`` >= 2 runs a row."""
        # Squared standard errors are in units of the squared difference, as in the joint test.
        images, trainings = (self.over_images / size) ** 2, self.rows * self.spread / seeds / size**2
        degrees_images, degrees = self.images - 1, self.rows * (seeds - 1)
        both = images + trainings
        degrees_both = both**2 / (images**2 / degrees_images + trainings**2 / degrees)
        tests = ((images, degrees_images), (trainings, degrees), (both, degrees_both))
        return min(_power(error**-0.5, freedom, level) for error, freedom in tests)

    def seeds_for(self, size: float, level: float, *, more_than: int = 1) -> int | None:
        """Return the least number of seeds with 80 % power; None: more than ``MOST``."""
        if _power(size / self.over_images, self.images - 1, level) < POWER:
            return None
        candidates = range(more_than + 1, MOST + 1)
        return next((seeds for seeds in candidates if self.power(size, level, seeds) >= POWER), None)


def _power(size: float, degrees: float, level: float) -> float:
    """Return the power of a two-sided t-test for a true difference of ``size`` standard errors."""
    from scipy import stats

    return float(stats.nct.sf(stats.t.isf(level / 2, degrees), degrees, size))
