"""Refusals that users meet most: one sentence of the right class that names the file or the name."""

from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.refusals import refused
from recap.core import errors
from recap.core.device import select_device
from recap.core.errors import RecapError
from recap.data.corpus import Corpus
from recap.data.files.archives import unpack
from recap.data.texts import read_texts
from recap.plan.catalog import section_names
from recap.runs.released import import_checkpoint
from recap.settings.params import load_named

NONE = Path("none")
REFUSALS: dict[str, tuple[Callable[[], object], type[RecapError], str]] = {
    "corpus": (lambda: Corpus.read(NONE / "corpus.parquet"), errors.MissingData, "none/corpus.parquet"),
    "archive": (lambda: unpack(NONE / "a.zip", into=NONE), errors.MissingData, "none/a.zip"),
    "texts": (lambda: list(read_texts(NONE / "a.txt")), errors.MissingData, "none/a.txt"),
    "params": (lambda: section_names(NONE, "models"), errors.MissingSettings, "--params"),
    "checkpoint": (
        lambda: import_checkpoint(kind="xlan", file=NONE / "model.pth", out=NONE / "out"),
        errors.MissingSettings,
        "none/model.pth",
    ),
    "name": (lambda: load_named(Path("params"), "models", "xlam"), errors.UnknownName, "'xlan'"),
    "device": (lambda: select_device("gpu"), errors.ConfigError, "'gpu'"),
}


@pytest.mark.parametrize("each", REFUSALS)
def test_a_refusal_names_what_it_is_about(each):
    act, kind, name = REFUSALS[each]
    with refused(kind, name):
        act()
