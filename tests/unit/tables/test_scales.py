"""Columns that are not in percent, and in which a lower value is better."""

import re
from typing import ClassVar

import pytest

from helpers.score_files import compared, make_table, table_texts, write_scores
from recap.metrics.base import Metric
from recap.settings.metrics import METRICS


class Errors(Metric):
    names: ClassVar = ("errors",)
    scale: ClassVar = 1
    digits: ClassVar = 2
    higher_is_better: ClassVar = False

    def version(self):
        return {}

    def score(self, captions):
        raise NotImplementedError


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(METRICS, "_entries", {**METRICS._entries, "errors": f"{__name__}:Errors"})


def test_values_stand_on_the_scale_of_their_metric_and_the_better_row_is_bold(tmp_path):
    rows = [{**row.model_dump(), "printed": {"errors": 1.5}} for row in make_table().rows]
    table = make_table(columns=["errors"], rows=rows)
    errors = {"transformer": {"errors": [1.31, 1.4, 1.52, 1.6]}, "zodiac": {"errors": [0.1, 0.21, 0.3, 0.4]}}
    write_scores(tmp_path / "scores", table, [1, 2], errors)
    text = table_texts(tmp_path, table, compared(tmp_path, table, [1, 2]))["md"]
    lines = dict(re.findall(r"^\| *(\S.*?) +\| +(.+?) +\|$", text.split("**ZoDIAC**")[1], re.MULTILINE))
    assert lines["ours (n = 2)"] == "**0.26** ± 0.01 †"
    assert lines["printed"] == "1.50"
    assert lines["ours minus baseline"] == "-1.205"
    assert "Not in percent: errors." in text and "Lower is better: errors." in text
