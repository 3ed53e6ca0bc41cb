"""Verdicts on claims as text, and as a table in four formats."""

import csv
from dataclasses import replace

import pytest

from helpers.commands import printed, refused_command
from helpers.plans import PARAMS, edited, planned
from helpers.refusals import refused
from recap.core.errors import ConfigError
from recap.plan.claims import claims_spec, read_claims
from recap.settings.tables import Claim
from recap.statistics.claims import FAILS, HOLDS, NOT_RUN, UNTOLD, ClaimVerdict, ComparisonVerdict
from recap.tables.claims import verdict_text, write_claims

CLAIM = Claim(
    id="mine.c1",
    sentence="ours is better & bold",
    where="4.2",
    printed=[1.1],
    doubt="100 % off",
    checks=[{"table": "mine/t1", "row": "own", "against": "base", "size": 1.1}],
)
JUDGED = ComparisonVerdict(
    CLAIM.checks[0],
    "mine/t1",
    "CIDEr",
    "Base",
    HOLDS,
    "",
    1.1,
    2.04,
    1.0,
    3.04,
    0.0004,
    runs=3,
)
SETTLED = Claim(
    id="mine.c2", sentence="four", where="1", fixed_verdict={"holds": True, "why": "2 + 2"}
)
VERDICTS = [ClaimVerdict(CLAIM, HOLDS, "", (JUDGED,)), ClaimVerdict(SETTLED, HOLDS, "2 + 2")]


def test_a_scaled_down_verdict_names_its_scale():
    assert verdict_text(VERDICTS[0], "photos") == "cannot be told here (at scale photos it holds)"
    failed = replace(VERDICTS[0], verdict=FAILS)
    assert (
        verdict_text(failed, "photos")
        == "cannot be told here (at scale photos it goes the other way)"
    )
    assert verdict_text(failed, "paper") == "does not hold"
    assert verdict_text(replace(VERDICTS[0], verdict=UNTOLD), "photos") == "cannot be told here"
    assert verdict_text(VERDICTS[0], "paper") == verdict_text(VERDICTS[1], "photos") == "holds"
    assert verdict_text(replace(VERDICTS[0], verdict=NOT_RUN), "photos") == "not run"


def test_the_table_shows_every_claim_its_comparisons_and_its_doubt(tmp_path):
    paths = write_claims(VERDICTS, "photos", tmp_path)
    texts = {path.suffix: path.read_text() for path in paths}
    assert texts.keys() == {".tex", ".csv", ".html", ".md"}
    for kind in (".md", ".html"):
        assert (
            "Scale photos: not a reproduction" in texts[kind]
            and "Doubt about the sentence: 100 % off." in texts[kind]
        )
    # Two tables of two numbers; only a continued one shares that of its first part.
    assert texts[".tex"].count(r"\caption{") == 2 and r"\addtocounter" not in texts[".tex"]
    assert r"ours is better \& bold" in texts[".tex"] and "+2.0" in texts[".md"]
    records = list(csv.DictReader((tmp_path / "claims.csv").open()))
    assert [(line["claim"], line["verdict"], line["p_holm"], line["runs"]) for line in records] == [
        ("mine.c1", "cannot be told here (at scale photos it holds)", "0.0004", "3"),
        ("mine.c2", "holds", "", ""),
    ]


def test_claims_that_were_not_run_share_a_line_and_details_are_behind_a_disclosure(tmp_path):
    waiting = [
        replace(VERDICTS[0], claim=CLAIM.model_copy(update={"id": f"mine.w{n}"}), verdict=NOT_RUN)
        for n in "12"
    ]
    texts = {
        path.suffix: path.read_text()
        for path in write_claims([*VERDICTS, *waiting], "photos", tmp_path)
    }
    for kind in (".md", ".html"):
        read, details = texts[kind].split("<details>")
        assert (
            read.count("mine.w1") == read.count("mine.w2") == 1
            and "2 more: mine.w1, mine.w2" in read
        )
        assert read.count("mine.c1") == 1 and "+2.0" in read and "+3.0" not in read
        assert "A comparison holds, or does not" in details and "own against Base, CIDEr" in details
    assert texts[".tex"].count("mine.w1") == 2 and "own against Base" in texts[".tex"]


def test_a_folder_of_results_is_named_after_paper_and_scale(tmp_path, capsys):
    (tmp_path / "fusion_scenes" / "scores").mkdir(parents=True)
    assert "0 of 10 runs" in printed(
        capsys, "report", "claims", tmp_path / "fusion_scenes", "--params", PARAMS
    )
    words = ["report", "claims", "fusionn", "--params", PARAMS, "--results", tmp_path]
    assert "fusion" in refused_command(capsys, *words)


def test_a_profile_brings_the_claims_of_the_papers_whose_tables_it_makes():
    asked = claims_spec(planned(PARAMS, "scenes", ["fusion/t2"]))
    assert asked.claims == read_claims(PARAMS, "fusion") and list(asked.tables) == ["fusion/t2"]
    assert claims_spec(planned(PARAMS, None, ["recap/demo"])) is None


@pytest.mark.parametrize(
    "changes, wrong, near",
    [
        ({"row": "acff"}, "acff", "'acf'"),
        ({"against": "bas"}, "bas", "'base'"),
        (
            {"table": "acf/t3", "row": "acf_grid", "against": None, "quoted": "rstnet"},
            "CIDEr",
            "c5.CIDEr",
        ),
        ({"table": "acf/t9"}, "acf/t9", "did you mean"),
        (
            {"table": "acf/t3", "row": "acf_grid", "against": None, "quoted": "rstnett"},
            "rstnett",
            "'rstnet'",
        ),
    ],
)
def test_a_claim_of_a_row_or_a_column_that_is_nowhere_is_refused_before_any_training(
    params, tmp_path, capsys, changes, wrong, near
):
    profile = tmp_path / "small.yaml"
    profile.write_text("name: small\ntables: [acf/t1]\nscale: scenes\n")
    check = {"table": "acf/t1", "row": "acf", "against": "base"}
    claims = [{"id": f"acf.c{n}", "sentence": "s", "where": "1", "checks": [check]} for n in (1, 2)]
    edited(params, "acf/claims.yaml", claims=claims)
    assert "1 table" in printed(capsys, "config", "check", profile, "--params", params)
    claims[1]["checks"] = [{key: value for key, value in {**check, **changes}.items() if value}]
    edited(params, "acf/claims.yaml", claims=claims)
    with refused(ConfigError, "params/acf/claims.yaml", "acf.c2", repr(wrong), near):
        claims_spec(planned(params, "scenes", ["acf/t1"]))
    said = refused_command(capsys, "config", "check", profile, "--params", params)
    assert "acf.c2" in said and repr(wrong) in said
