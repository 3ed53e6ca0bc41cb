"""Checks a refusal by its class and by what its sentence must name.

The rest of the sentence is free to improve.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from recap.core.errors import RecapError


@contextmanager
def refused(kind: type[RecapError], *named: object) -> Iterator[pytest.ExceptionInfo[RecapError]]:
    """Expect one sentence of one line that names each file, key, id or value of ``named``."""
    with pytest.raises(kind) as caught:
        yield caught
    sentence = str(caught.value)
    assert sentence
    assert "\n" not in sentence
    assert "Traceback" not in sentence
    for each in named:
        assert str(each) in sentence, f"{each!r} is not named in: {sentence}"
