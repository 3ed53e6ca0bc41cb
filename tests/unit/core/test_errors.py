"""How errors are told: short, in one sentence, without what libraries add."""

import os

import pytest

from recap.cli.errors import one_sentence
from recap.core.errors import ConfigError


def test_a_long_value_leaves_the_beginning_and_the_end_of_its_sentence():
    sentence = str(ConfigError(f"a.yaml: unknown key {'x' * 3500!r}; correct it"))
    assert (
        sentence.startswith("a.yaml") and sentence.endswith("; correct it") and len(sentence) < 700
    )
    assert str(ConfigError("x" * 600)) == "x" * 600


@pytest.mark.parametrize(
    "error", [MemoryError(), ImportError("libx.so: failed to map segment from shared object")]
)
def test_a_full_memory_is_one_sentence(monkeypatch, capsys, error):
    statuses = []
    monkeypatch.setattr(os, "_exit", statuses.append)
    with one_sentence():
        raise error
    assert statuses == [2]
    assert capsys.readouterr().err.startswith("recap: the memory is full")
