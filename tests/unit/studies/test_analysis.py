"""Votes and answers of a study become the paper's numbers."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from helpers.refusals import refused
from helpers.studies import make, position_of, study_of
from recap.core.documents import write_json
from recap.core.errors import ConfigError
from recap.studies.analysis import (
    PEARSON,
    agreement,
    analyse,
    goodness_of_fit,
    independence_test,
    study_power,
)
from recap.studies.responses import Submission, collect
from recap.studies.tables import analyse_study, study_table

VOTES = {
    "frac_0.001": [49, 24, 78, 99],
    "frac_0.005": [48, 48, 59, 95],
    "frac_0.01": [43, 61, 55, 91],
}
CHI_SQUARE = {"frac_0.001": 51.8, "frac_0.005": 23.8, "frac_0.01": 20.0}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The first study with as many votes for each system as the paper has, given by its own
    raters."""
    study = study_of("visualgpt/t6", pixels=64)
    forms = make(tmp_path_factory.mktemp("t6"), study, 160, name="visualgpt/t6")
    systems = [system.id for system in study.systems]
    left = {
        setup: [s for s, count in zip(systems, votes, strict=True) for _ in range(count)]
        for setup, votes in VOTES.items()
    }
    responses = forms.responses(lambda item, _: position_of(item, left[item.setup].pop()))
    assert not any(left.values())
    result = collect(forms.sheets, [Submission("x", response) for response in responses])
    return forms, result, analyse(forms.sheets, result)


def test_the_published_votes_give_table_6_and_its_tests(published):
    forms, result, statistics = published
    assert len(result.used()) == len(forms.sheets.sheets) == 25
    for block, setup in zip(statistics.blocks, forms.sheets.study.setups, strict=True):
        printed = forms.sheets.study.printed[setup.id]["share"]
        shares = [
            round(100 * block.systems[system.id].share, 1) for system in forms.sheets.study.systems
        ]
        assert shares == printed
        assert round(block.test.chi_square, 1) == CHI_SQUARE[setup.id]
        assert block.test.degrees == 3 and block.test.p < 0.05
        assert block.votes == 250 and block.images == 50


def test_the_table_has_the_papers_layout_beside_the_printed_numbers(published, tmp_path):
    forms, result, statistics = published
    content = study_table(forms.sheets, statistics)
    assert [name for name, _ in content.columns] == ["0.1% data", "0.5% data", "1% data"]
    labels = ["Transformer", "AoA Transformer", "M2 Transformer", "VisualGPT", "All systems"]
    assert [block.label for block in content.blocks] == labels
    lines = {line.label: [cell.text for cell in line.cells] for line in content.blocks[3].lines}
    assert lines["votes, percent"] == lines["printed"] == ["39.6", "38.0", "36.4"]
    assert [cell.text for cell in content.blocks[4].lines[0].cells] == ["51.8", "23.8", "20.0"]
    write_json(tmp_path / "responses.json", result.model_dump(mode="json"))
    files = {
        "responses": tmp_path / "responses.json",
        "statistics": tmp_path / "t6.json",
        "out": tmp_path / "tables",
    }
    analyse_study(sheets=forms.folder / "sheets.json", **files, name="t6")
    paths = {path.suffix: path for path in (tmp_path / "tables").glob("t6.*")}
    assert paths.keys() == {".tex", ".csv", ".html", ".md"}
    assert "51.79" in paths[".csv"].read_text() and not any(
        "SIMULATED" in path.read_text() for path in paths.values()
    )
    blocks = [replace(block, test=replace(block.test, p_by="exact")) for block in statistics.blocks]
    few = replace(statistics, blocks=blocks)
    assert any("0.1% data (exact)" in note for note in study_table(forms.sheets, few).notes)


def test_answers_of_table_7_give_its_rates(tmp_path):
    study = study_of("visualgpt/t7", images=20, items=10, raters=2, pixels=64)
    forms = make(tmp_path, study, 30, name="visualgpt/t7")
    # Of 40 answers per system, as many are yes as the paper's rate of the column says.
    no = {
        "missing": dict(
            zip(["visualgpt", "m2", "transformer", "aoa", "gt"], [26, 24, 23, 23, 37], strict=True)
        )
    }
    no["invented"] = dict.fromkeys(no["missing"], 30)
    left = {
        (q, s): ["no"] * n + ["yes"] * (40 - n)
        for q, counts in no.items()
        for s, n in counts.items()
    }
    responses = forms.responses(lambda item, question: left[question, item.systems[0]].pop())
    statistics = analyse(
        forms.sheets, collect(forms.sheets, [Submission("x", response) for response in responses])
    )
    missing, invented = statistics.blocks
    assert {s: cell.no for s, cell in missing.systems.items()} == no["missing"]
    assert missing.systems["gt"].share == 37 / 40
    # the reference captions are not tested against the models
    assert missing.test.degrees == 3
    assert invented.test.chi_square == pytest.approx(0) and invented.test.p == pytest.approx(1)
    content = study_table(forms.sheets, statistics)
    names = ["VisualGPT", "M2 Transformer", "Transformer", "AoA Transformer", "GT"]
    assert [name for name, _ in content.columns] == names
    lines = {line.label: [cell.text for cell in line.cells] for line in content.blocks[0].lines}
    assert content.blocks[0].label == "Q1. Does the caption miss things shown in the image?"
    assert lines["no rate"] == ["0.65", "0.60", "0.57", "0.57", "0.93"]
    low, _, high = lines["95% interval"][0].partition(" to ")
    assert float(low) < 0.65 < float(high) < 1  # in the unit of the rate above it
    assert lines["printed: no rate"] == ["0.66", "0.59", "0.58", "0.58", "0.93"]
    assert lines["printed: no"][-1] == "973"


def test_chi_square_of_equal_counts_is_zero_and_of_none_is_no_test():
    assert goodness_of_fit([5, 5, 5]).chi_square == 0
    assert goodness_of_fit([0, 0]).p is None
    assert independence_test([[5, 0], [7, 0]]).p is None
    # (ad - bc)^2 n / (row and column sums): 2 x 2 by hand, without continuity correction
    assert independence_test([[10, 20], [20, 10]]).chi_square == pytest.approx(
        (10 * 10 - 20 * 20) ** 2 * 60 / 30**4
    )


def test_few_answers_have_an_exact_p():
    # three of the 27 ways to cast three votes
    assert goodness_of_fit([3, 0, 0]).p == pytest.approx(3 / 27)
    few = independence_test([[2, 0], [0, 2]])
    assert few.p == pytest.approx(1 / 3) and few.p_by == "Fisher's exact test"
    # Three systems, of which one has all of two no: 1 of the 15 pairs of answers is of each system.
    many = independence_test([[2, 0], [0, 2], [0, 2]])
    assert many.p == pytest.approx(3 / 15, abs=0.01) and many == independence_test(
        [[2, 0], [0, 2], [0, 2]]
    )
    assert {goodness_of_fit([5, 5, 6]).p_by, independence_test([[10, 20], [20, 10]]).p_by} == {
        PEARSON
    }


@pytest.mark.parametrize("counts", [[4, 1, 0], [3, 3, 1, 1], [6, 2], [0, 0, 0, 2, 1]])
def test_the_exact_p_of_votes_is_that_of_all_ways_to_cast_them(counts):
    ways = product(range(len(counts)), repeat=sum(counts))
    squares = [sum(way.count(system) ** 2 for system in range(len(counts))) for way in ways]
    share_of = np.mean(np.array(squares) >= sum(count**2 for count in counts))
    assert goodness_of_fit(counts).p == pytest.approx(share_of)


def test_agreement_of_published_examples():
    # Fleiss' own kind of table: ten subjects, fourteen raters, five categories, kappa 0.210.
    counts = (
        "0 0 0 0 14, 0 2 6 4 2, 0 0 3 5 6, 0 3 9 2 0, 2 2 8 1 1, 7 7 0 0 0, 3 2 6 3 0, 2 5 3 2 2, "
        "6 5 2 1 0, 0 2 2 3 7"
    )
    rows = [map(int, row.split()) for row in counts.split(",")]
    ratings = [[str(c) for c, number in enumerate(row) for _ in range(number)] for row in rows]
    assert round(agreement(ratings, list("01234")).fleiss_kappa, 3) == 0.210
    # Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", C:
    # four observers, twelve units, nominal 0.743.
    observers = ["123321412   ", "1233224125 3", " 3332342251 ", "12332441251 "]
    units = [[row[unit] for row in observers if row[unit] != " "] for unit in range(12)]
    result = agreement(units, list("12345"))
    assert (result.items, round(result.krippendorff_alpha, 3)) == (11, 0.743)
    # chance is certain
    assert agreement([["a", "a"], ["a", "a"]], ["a", "b"]).krippendorff_alpha is None


def test_power_of_the_papers_design():
    study = study_of("visualgpt/t6")
    lines = study_power(study, [0.172, 0.244, 0.220, 0.364]).splitlines()
    assert (
        lines[0].startswith("250 answers per setup") and lines[-1] == "Power 0.8 needs 137 answers."
    )
    assert lines[2].endswith("w = 0.283, power 0.975.")
    assert study_power(study, [0.25] * 4).endswith("power 0.050.")
    for shares in ([0.5, 0.5], [0.2] * 4):
        with refused(ConfigError, "--shares"):
            study_power(study, shares)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"printed": {"frac": {"share": [1]}}}, ["printed", "'frac'"]),
        ({"printed": {"frac_0.01": {"share": [1]}}}, ["printed.frac_0.01.share", "1", "4 systems"]),
        ({"questions": [{"id": "q", "label": "Q", "text": "Q?"}]}, ["'questions'", "`questions`"]),
    ],
)
def test_a_study_file_that_contradicts_itself_is_refused(change, named):
    with refused(ConfigError, "visualgpt/t6", *named):
        study_of("visualgpt/t6", **change)
