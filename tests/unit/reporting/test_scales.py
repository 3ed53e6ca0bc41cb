"""Columns that are not in percent, and in which a lower value is better."""

from typing import ClassVar

import pytest

from recap.metrics.base import Metric
from recap.reporting.content import table_content
from recap.settings import Table
from recap.settings.metrics import METRICS
from recap.statistics.comparison import Sample, compare_rows, correct


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


SAMPLES = Sample([1.31, 1.4, 1.52, 1.6], [1.45, 1.451]), Sample([0.1, 0.21, 0.3, 0.4], [0.25, 0.251])


def test_fewer_errors_are_marked_as_better():
    fewer = compare_rows("errors", *SAMPLES, higher_is_better=False)
    more = compare_rows("errors", *SAMPLES)
    correct([fewer, more], units=["images"])
    assert (fewer["mark"], more["mark"]) == (1, -1)
    assert "lower_is_better" not in more


def content():
    comparison = compare_rows("errors", *SAMPLES, higher_is_better=False)
    correct([comparison], units=["images"])
    row = {"dataset": "d", "features": "f", "model": "m", "recipe": "r"}
    rows = [{"id": "a", "label": "A", **row}, {"id": "b", "label": "B", **row}]
    table = Table(title="T", scale="small", columns=["errors"], baseline="a", rows=rows)
    cell = {
        "values": {"1": 1.0, "2": 1.0},
        "sd": 0.001,
        "n": 2,
        "reason": None,
        "source": None,
        "printed_percent": 1.5,
        "printed_sd_percent": None,
        "difference_to_printed_percent": None,
    }
    cells = [{**cell, "mean": 1.4505, "comparison": None}, {**cell, "mean": 0.2505, "comparison": comparison}]
    described = [
        {
            **row,
            "as_printed": False,
            "printed_p": {},
            "doubt": {},
            "signatures": {"1": "s"},
            "cells": {"errors": values},
        }
        for row, values in zip(rows, cells, strict=True)
    ]
    statistics = {"table": "t", "printed_on": None, "baseline": "a", "columns": ["errors"], "seeds": [1, 2]}
    family = {"units": ["images", "runs", "both"], "made": 1, "power": None}
    statistics |= {"images": 4, "family": family, "quoted": [], "not_run": [], "rows": described}
    return table_content(table, statistics)


def test_values_stand_on_the_scale_of_their_metric_and_the_better_row_is_bold():
    shown = content()
    lines = {line.kind: line.entries[0] for line in shown.blocks[1].lines}
    assert lines["ours (n = 2)"].text == "0.25 ± 0.00"
    assert lines["ours (n = 2)"].strong
    assert lines["printed"].text == "1.50"
    assert lines["ours minus baseline"].text == "-1.200 ↓"
    assert "Not in percent: errors." in shown.notes
    assert "Lower is better: errors." in shown.notes
