"""The colors of all figures."""

from collections.abc import Iterable
from itertools import cycle

# Colors that color-blind readers can distinguish (Okabe and Ito); further lines repeat them.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")


def colour_of(labels: Iterable[str]) -> dict[str, str]:
    """Return the color of each label, in the order of the tables' rows, so that a row has one color
    everywhere."""
    return dict(zip(dict.fromkeys(labels), cycle(COLOURS), strict=False))
