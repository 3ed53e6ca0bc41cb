"""A claim is judged by the rule of a table's marks, from the runs that are finished."""

import random

import pytest

from helpers.score_files import make_table, write_run
from recap.plan.run import row_runs
from recap.settings.specs import ClaimsSpec, ComparedTable, PrintedTable
from recap.settings.tables import Claim
from recap.statistics.claims import FAILS, HOLDS, NO_PROGRAM, NOT_RUN, UNTOLD, judge_claims

SEEDS = [1, 2, 3, 4, 5]
IDS = range(100)
QUOTED = [{"id": "q", "label": "Q", "printed": {"CIDEr": 50.0}}]


def claim(**check):
    against = {} if {"quoted", "printed"} & check.keys() else {"against": "transformer"}
    return Claim(
        id="mine.c1",
        sentence="s",
        where="1",
        checks=[{"table": "t", "row": "zodiac", **against, **check}],
    )


def judged(the_claim, folder, printed=None, **tables):
    spec = ClaimsSpec(scale="small", claims=[the_claim], tables=tables, printed=printed or {})
    (verdict,) = judge_claims(spec, folder)
    return verdict


class Made:
    """A table of two rows whose second is better by ``gain`` points of CIDEr, and its scores."""

    def __init__(self, folder, gain=20, seeds=SEEDS, spread=0.5, **changes):
        self.folder = folder
        self.table = make_table(columns=["METEOR", "CIDEr"], quoted=QUOTED, **changes)
        self.seeds = seeds
        for row in self.table.rows:
            for run in row_runs(row, seeds):
                drawn = random.Random(run.path)
                level = 0.6 + (gain / 100) * (row.id == "zodiac") + drawn.gauss(0, spread / 100)
                images = [level + 0.1 * random.Random(f"{run.path} {i}").gauss(0, 1) for i in IDS]
                write_run(
                    folder / run.path, {"CIDEr": images, "METEOR": images}, ids=IDS, not_run=()
                )

    def judged(self, **check):
        return judged(
            claim(**check), self.folder, t=ComparedTable(table=self.table, seeds=self.seeds)
        )


def test_a_large_difference_holds_and_the_opposite_does_not(tmp_path):
    example = Made(tmp_path)
    result = example.judged(size=20)
    each = result.comparisons[0]
    assert result.verdict == HOLDS and each.p < 0.001
    assert each.low < 20 < each.high and each.difference == pytest.approx(20, abs=3)
    assert each.runs == 5
    assert example.judged(sign="lower").verdict == FAILS
    assert example.judged(row="transformer", against="zodiac").verdict == FAILS


def test_of_a_small_difference_or_one_seed_nothing_can_be_told(tmp_path):
    result = Made(tmp_path, gain=0, spread=3).judged(size=0.5)
    assert result.verdict == UNTOLD and "not significant" in result.why
    result = Made(tmp_path, seeds=[1]).judged(size=20)
    assert result.verdict == UNTOLD and "one run" in result.why
    assert result.comparisons[0].low > 0


def test_a_claim_with_a_comparison_that_fails_does_not_hold(tmp_path):
    example = Made(tmp_path)
    both = claim().model_copy(update={"checks": [*claim().checks, *claim(sign="lower").checks]})
    result = judged(both, tmp_path, t=ComparedTable(table=example.table, seeds=SEEDS))
    assert result.verdict == FAILS and result.why.startswith("1 of 2 comparisons")


def test_runs_that_are_missing_are_counted(tmp_path):
    example = Made(tmp_path)
    for run in row_runs(example.table.rows[1], SEEDS)[2:]:
        (tmp_path / run.path / "metrics.json").unlink()
    result = example.judged()
    assert result.verdict == NOT_RUN and "7 of 10 runs" in result.why
    assert example.judged(table="u").verdict == NOT_RUN
    assert example.judged(table="u", fallback_table="t").comparisons[0].table == "t"


def test_a_table_in_place_is_read_where_the_own_one_has_one_seed(tmp_path):
    example = Made(tmp_path, as_printed=True)
    several, one = (ComparedTable(table=example.table, seeds=seeds) for seeds in (SEEDS, [1]))
    check = claim(table="t", fallback_table="u", size=20)

    def read(own, other):
        (result,) = judged(check, tmp_path, t=own, u=other).comparisons
        return result.table, result.runs

    assert read(one, several) == ("u", 5) and read(several, one) == read(several, several) == (
        "t",
        5,
    )
    assert read(one, one) == ("t", 1)


def test_a_row_that_a_table_in_place_lacks_is_not_compared_with_and_is_said(tmp_path):
    result = Made(tmp_path).judged(
        table="u", fallback_table="t", against=["transformer", "larger"], size=20
    )
    assert result.verdict == HOLDS and result.why == "1 comparison not made at this scale"
    assert [(each.verdict, each.planned) for each in result.comparisons] == [
        (HOLDS, True),
        (NOT_RUN, False),
    ]
    gone = Made(tmp_path).judged(table="u", fallback_table="t", against=["larger"])
    assert gone.verdict == NOT_RUN and "row larger is not run" in gone.why


def test_the_printed_size_is_that_of_the_table_whose_place_another_takes_and_another_stage_is_said(
    tmp_path,
):
    example = Made(tmp_path)
    table = ComparedTable(table=example.table, seeds=SEEDS)
    rows = {"zodiac": {"CIDEr": 125.0}, "transformer": {"CIDEr": 120.0}}
    other, same = (
        judged(
            claim(table="u", fallback_table="t"),
            tmp_path,
            {"u": PrintedTable(stage=stage, rows=rows)},
            t=table,
        )
        for stage in ("xe", "scst")
    )
    assert "printed after cross-entropy" in other.why and "printed after" not in same.why
    assert same.comparisons[0].printed == 5.0
    assert (
        example.judged().comparisons[0].printed is None
    )  # ZoDIAC has no printed number in the table itself


def test_a_printed_number_counts_as_exact_where_data_and_settings_are_those_of_the_print(tmp_path):
    other = Made(tmp_path / "other").judged(quoted="q")
    assert other.verdict == UNTOLD and "other data" in other.why
    example = Made(tmp_path / "same", as_printed=True)
    result = example.judged(quoted="q", size=30)
    assert result.verdict == HOLDS and result.comparisons[0].difference == pytest.approx(30, abs=3)
    assert example.judged(printed=80, sign="equal", within=4).verdict == HOLDS
    assert example.judged(printed=50, sign="equal", within=4).verdict == FAILS
    assert example.judged(printed=80, sign="equal", within=0.1).verdict == UNTOLD
    assert "not printed" in example.judged(quoted="q", metrics=["METEOR"]).why


def test_what_no_training_decides_says_why():
    no = Claim(id="m.c1", sentence="s", where="1", reason_unjudged="a name")
    counted = Claim(
        id="m.c2", sentence="s", where="1", fixed_verdict={"holds": False, "why": "2 + 2"}
    )
    result = [judged(each, None) for each in (no, counted)]
    assert [(each.verdict, each.why) for each in result] == [
        (NO_PROGRAM, "a name"),
        (FAILS, "2 + 2"),
    ]
