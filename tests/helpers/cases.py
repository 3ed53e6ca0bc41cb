"""How many cases long tests take: a part of them,
or all of them with RECAP_TESTS=all (`make test-nightly`)."""

import os
from typing import TypeVar

Cases = TypeVar("Cases")
ALL = os.environ.get("RECAP_TESTS") == "all"


def cases(every: Cases, few: Cases) -> Cases:
    """Return every case if all are asked for, else a few of them; cases are a list or a number."""
    return every if ALL else few
