"""A row is chosen by its validation scores: the best mean over seeds, first of equal ones.

A record says why.
"""

import json

import pytest

from helpers.refusals import refused
from helpers.score_files import BASE, BETTER, make_table, write_scores
from recap.core.checksums import record
from recap.core.errors import ChangedFile, RecapError
from recap.settings.specs import SelectedRows
from recap.settings.tables import Selection
from recap.statistics.compare import choose, compare_table, read_selections, write_selections
from recap.tables.formats import write_table

SELECTION = Selection(id="chosen", label="Best", over=["transformer", "zodiac"])
LABELS = {"transformer": "Transformer", "zodiac": "ZoDIAC"}


@pytest.mark.parametrize(
    ("transformer", "zodiac", "chosen"),
    [
        ({1: 0.5, 2: 0.7}, {1: 0.4, 2: 0.6}, "transformer"),
        ({1: 0.9, 2: 0.1}, {1: 0.6, 2: 0.6}, "zodiac"),  # not the best single seed
        ({1: 0.5, 2: 0.7}, {1: 0.7, 2: 0.5}, "transformer"),  # equal: the first
    ],
)
def test_the_best_mean_over_the_seeds_is_chosen(transformer, zodiac, chosen):
    choice = choose(SELECTION, LABELS, {"zodiac": zodiac, "transformer": transformer})
    assert choice.chosen == chosen
    assert [each.validation_cider_d for each in choice.candidates] == [transformer, zodiac]


def trainings(root, **scores):
    """Write the records of trainings; row -> best validation score by seed."""
    for row, by_seed in scores.items():
        for seed, score in by_seed.items():
            file = root / row / str(seed) / "training.json"
            file.parent.mkdir(parents=True)
            file.write_text(json.dumps({"best_val_cider_d": score}))
            record(file)
    paths = {row: {seed: f"{row}/{seed}" for seed in by_seed} for row, by_seed in scores.items()}
    return SelectedRows(selections=[SELECTION], labels=LABELS, trainings=paths)


@pytest.fixture
def recorded(tmp_path):
    """The record of a choice for which the row with the worse test scores is better on
    validation."""
    spec = trainings(
        tmp_path / "runs", transformer={1: 0.9, 2: 0.8, 3: 0.7}, zodiac={1: 0.5, 2: 0.6, 3: 0.7}
    )
    write_selections(spec, runs=tmp_path / "runs", out=tmp_path / "selection.json")
    return tmp_path / "selection.json"


def test_a_record_is_read_back_and_refused_where_it_is_damaged(recorded):
    (choice,) = read_selections(recorded)
    assert choice.chosen == "transformer" and choice.candidates[1].mean == pytest.approx(0.6)
    recorded.write_text(recorded.read_text().replace("0.9", "0.1"))
    with refused(ChangedFile, "selection.json"):
        read_selections(recorded)


def test_the_table_shows_the_choice_and_tests_no_more_than_before(recorded, tmp_path):
    plain = make_table(printed_on=None)
    table = make_table(printed_on=None, selections=[SELECTION])
    write_scores(tmp_path / "scores", table, [1, 2, 3], {"transformer": BASE, "zodiac": BETTER})
    common = {"name": "two", "seeds": [1, 2, 3], "scores_root": tmp_path / "scores"}
    before = compare_table(table=plain, statistics_out=tmp_path / "plain.json", **common)
    after = compare_table(
        table=table, statistics_out=tmp_path / "two.json", selection=recorded, **common
    )
    assert after.family == before.family and after.rows == before.rows
    (line,) = after.selected
    assert line.label == "Best: Transformer"  # though ZoDIAC's test scores are better
    assert line.cells["CIDEr"].mean == after.rows[0].cells["CIDEr"].mean
    assert line.cells["CIDEr"].printed_percent is None
    assert line.choice.candidates[0].validation_cider_d == {1: 0.9, 2: 0.8, 3: 0.7}
    write_table(name="two", table=table, statistics=after, out=tmp_path)
    for form in ("two.md", "two.paper.md", "two.csv"):
        assert "Best: Transformer" in (tmp_path / form).read_text()
    assert "validation CIDEr-D" in (tmp_path / "two.md").read_text()
    without = compare_table(table=table, statistics_out=tmp_path / "two.json", **common)
    with refused(RecapError, "two"):
        write_table(name="two", table=table, statistics=without, out=tmp_path)
