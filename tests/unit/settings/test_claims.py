"""Claims are those of the papers, each is decided in one way,
and comparisons name rows and columns that exist."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from helpers.plans import PARAMS
from recap.plan.claims import read_claims
from recap.settings.params import load_named
from recap.settings.tables import Check, ClaimsFile

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "claims.json").read_text())
PAPERS = sorted({key.partition(".")[0] for key in GOLDEN})  # others may have claims of their own
CLAIMS = {claim.id: claim for paper in PAPERS for claim in read_claims(PARAMS, paper)}
CHECK = {"table": "mine/t1", "row": "own", "against": "base"}


def test_the_claims_are_those_of_the_papers():
    assert CLAIMS.keys() == GOLDEN.keys() and len(GOLDEN) == 39
    for key, golden in GOLDEN.items():
        printed = golden["printed"] if isinstance(golden["printed"], list) else [golden["printed"]]
        claim = CLAIMS[key]
        assert (claim.sentence, claim.where, claim.printed) == (
            golden["sentence"],
            golden["where"],
            printed,
        )


@pytest.mark.parametrize(
    "claim", [claim for claim in CLAIMS.values() if claim.checks], ids=lambda claim: claim.id
)
def test_a_comparison_names_what_its_tables_have(claim):
    for check in claim.checks:
        for name in filter(None, [check.table, check.fallback_table]):
            table = load_named(PARAMS, "tables", name)
            own, others = {row.id for row in table.rows}, set(check.rows)
            assert check.row in own and (
                others <= own if name == check.table else not others or others & own
            )
            assert check.quoted is None or check.quoted in {row.id for row in table.quoted}
            assert set(check.metrics) <= set(table.columns)


def test_a_printed_size_is_that_of_the_printed_numbers():
    """A gain over the best of several rows is the one over the row with the highest printed
    number."""
    wrong = []
    for claim in CLAIMS.values():
        for check in claim.checks:
            table = load_named(PARAMS, "tables", check.table)
            printed = {row.id: row.printed for row in (*table.rows, *table.quoted)}
            others = [
                printed[name][check.metrics[0]]
                for name in [*check.rows, *filter(None, [check.quoted])]
            ]
            if (
                check.size
                and round(abs(printed[check.row][check.metrics[0]] - max(others)), 1) != check.size
            ):
                wrong.append((claim.id, check.table))
    # The sentence gives 0.3; the printed numbers differ by 1.1.
    assert wrong == [("visualgpt.c6", "visualgpt/t5_f01")]


@pytest.mark.parametrize(
    "change",
    [
        {"quoted": "q"},
        {"against": None},
        {"metrics": ["CIDER"]},
        {"within": 1},
        {"sign": "equal"},
        {"at_least": 1},
    ],
)
def test_a_check_that_says_two_things_or_nothing_is_refused(change):
    assert Check(**CHECK)
    with pytest.raises(ValidationError):
        Check(**{**CHECK, **change})


def test_a_claim_has_an_id_of_its_own():
    claim = {"id": "mine.c1", "sentence": "s", "where": "1", "checks": [CHECK]}
    assert ClaimsFile(claims=[claim]).claims[0].checks[0].rows == ["base"]
    with pytest.raises(ValidationError, match=r"mine\.c1"):
        ClaimsFile(claims=[claim, claim])
