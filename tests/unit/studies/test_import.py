"""Responses become raters: checked, once each, with the rule that leaves somebody out."""

import csv
import json

import pytest

from helpers.refusals import refused
from helpers.studies import make, position_of, study_of
from recap.core.errors import DataError, MissingData
from recap.studies.responses import (
    RULES,
    Submission,
    collect,
    read_collected,
    read_responses,
    simulate,
    simulated_response,
)


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """A preference study of five sheets."""
    study = study_of("recap/preference", images=6, items=6, pixels=64)
    return make(tmp_path_factory.mktemp("import"), study, 20)


@pytest.fixture
def responses(forms):
    """Five responses without a fault."""
    return forms.responses(lambda item, _: position_of(item, "acf"))


def collected(forms, responses):
    return collect(forms.sheets, [Submission("x", response) for response in responses])


def with_exclusions(forms, **rules):
    """Return the same study with other rules, which are no part of what raters see."""
    study = forms.sheets.study.model_copy(
        update={"exclusions": forms.sheets.study.exclusions.model_copy(update=rules)}
    )
    return forms.sheets.model_copy(update={"study": study})


def test_each_rule_leaves_out_whom_it_names_and_is_counted(forms, responses):
    sheets = with_exclusions(forms, seconds=2.0, same_position=0.8)
    first, second, third, fourth, fifth = responses
    gold = next(
        str(n) for n, item in enumerate(sheets.by_id[second.sheet].items, start=1) if item.gold
    )
    wrong = str(1 + int(second.answers[gold]["best"]) % 3)
    changed = [
        first.model_copy(update={"finished": False}),
        second.model_copy(update={"answers": {**second.answers, gold: {"best": wrong}}}),
        third.model_copy(update={"answers": {n: a for n, a in third.answers.items() if n != "1"}}),
        fourth.model_copy(update={"seconds": dict.fromkeys(fourth.answers, 1.0)}),
        fifth,
    ]
    result = collect(sheets, [Submission("x", response) for response in changed])
    assert [rater.excluded for rater in result.raters] == [
        "unfinished",
        "wrong_gold",
        "answered",
        "seconds",
        "",
    ]
    assert list(result.excluded()) == list(RULES)
    assert list(result.excluded().values()) == [1, 1, 1, 1, 0, 0]
    assert [rater.sheet for rater in result.used()] == [fifth.sheet]


def test_one_who_always_clicks_the_same_position_is_left_out(forms, responses):
    sheets = with_exclusions(forms, same_position=0.8, wrong_gold=5)
    same = responses[0].model_copy(
        update={"answers": {number: {"best": "2"} for number in responses[0].answers}}
    )
    result = collect(sheets, [Submission("x", same), Submission("x", responses[1])])
    assert [rater.excluded for rater in result.raters] == ["same_position", ""]


def test_duplicates_count_once_and_the_last_of_different_ones_counts(forms, responses):
    first = responses[0]
    item = next(
        str(n) for n, item in enumerate(forms.sheets.sheets[0].items, start=1) if not item.gold
    )
    other = str(1 + int(first.answers[item]["best"]) % 3)
    later = first.model_copy(update={"answers": {**first.answers, item: {"best": other}}})
    result = collected(forms, [first, first, later, first.model_copy(update={"finished": False})])
    assert (result.duplicates, result.replaced, result.ignored, len(result.raters)) == (1, 1, 1, 1)
    assert result.raters[0].answers[item] == {"best": other} and not result.raters[0].excluded


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"study": "0" * 16}, "another study"),
        ({"sheet": "999"}, "sheet '999'"),
        ({"answers": {"99": {"best": "1"}}}, "names item '99'"),
        ({"answers": {"1": {"worst": "1"}}}, "question 'worst'"),
        ({"answers": {"1": {"best": "4"}}}, "'4' is no answer"),
        ({"seconds": {"99": 1.0}}, "names item '99'"),
        ({"consent": False}, "agreed"),
        ({"answers": {}}, "has no answer"),
        ({"answers": {"1": {}}}, "has no answer"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason_and_does_not_count(
    forms, responses, change, reason
):
    result = collected(forms, [responses[0].model_copy(update=change), responses[1]])
    assert len(result.raters) == 1 and len(result.refused) == 1 and reason in result.refused[0]
    with refused(DataError, "'made'"):
        collected(forms, [responses[0].model_copy(update=change)])


def test_files_of_pages_and_damaged_ones(forms, responses, tmp_path):
    (tmp_path / "a.json").write_text(responses[0].model_dump_json())
    (tmp_path / "b.json").write_text("{")
    (tmp_path / "c.json").write_text('{"form": "recap study response 1", "answers": 3}')
    (tmp_path / "d.json").write_text("[" * 100_000)
    (tmp_path / "notes.txt").write_text("not looked at")
    for name, response in (("e", responses[1]), ("f", responses[1]), ("g", responses[2])):
        (tmp_path / f"{name}.json").write_text(response.model_dump_json())
    result = forms.imported(tmp_path, tmp_path / "out" / "responses.json")
    assert [rater.sheet for rater in result.raters] == ["001", "002", "003"]
    assert len(result.refused) == 3 and result.duplicates == 1 and not result.simulated
    assert read_collected(tmp_path / "out" / "responses.json", forms.sheets) == result
    for name, content in (("x.sqlite", ""), ("x.csv", "a,b\n1,2\n"), ("x.txt", "")):
        (tmp_path / "other").mkdir(exist_ok=True)
        (tmp_path / "other" / name).write_text(content)
        with refused(DataError, name):
            list(read_responses([tmp_path / "other" / name], "x"))
    with refused(MissingData, tmp_path / "gone"):
        list(read_responses([tmp_path / "gone"], "x"))


def write_csv(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(
            file, fieldnames=list(dict.fromkeys(name for row in rows for name in row))
        )
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.parametrize("flat", [True, False])
def test_results_of_a_crowd_platform_are_read_and_its_accounts_are_not_kept(
    forms, responses, tmp_path, flat
):
    rows = []
    for number, response in enumerate(responses):
        # The third form is by the person who did the first.
        row = {
            "WorkerId": f"A{number % 2 if number == 2 else number}SECRET",
            "Input.sheet": response.sheet,
        }
        row["Answer.consent"] = "on"
        for item, answers in response.answers.items():
            for option in "123":
                if flat and answers["best"] == option:
                    row[f"Answer.{item}.best"] = option
                elif not flat:
                    row[f"Answer.{item}.best.{option}"] = str(answers["best"] == option).lower()
        rows.append(row)
    path = write_csv(tmp_path / "Batch_1_results.csv", rows)
    result = forms.imported(path, tmp_path / "responses.json")
    assert [rater.excluded for rater in result.raters] == ["", "", "repeated_person", "", ""]
    assert [rater.answers for rater in result.raters] == [
        response.answers for response in responses
    ]
    assert "SECRET" not in (tmp_path / "responses.json").read_text()


def test_answers_typed_from_paper_are_read_and_two_to_one_question_are_refused(
    forms, responses, tmp_path
):
    rows = [
        {"sheet": response.sheet, "item": item, "question": "best", "answer": answers["best"]}
        for response in responses[:2]
        for item, answers in response.answers.items()
    ]
    rows.append({**rows[0], "answer": str(1 + int(rows[0]["answer"]) % 3)})
    result = collect(
        forms.sheets, read_responses([write_csv(tmp_path / "typed.csv", rows)], forms.sheets.digest)
    )
    assert [(rater.sheet, rater.answers) for rater in result.used()] == [
        ("002", responses[1].answers)
    ]
    (reason,) = result.refused
    assert (
        "typed.csv sheet 001" in reason
        and f"{rows[0]['answer']} and {rows[-1]['answer']}" in reason
    )


@pytest.mark.parametrize(
    ("sheet", "item"), [("2", "{}"), ("02", "0{}"), ("2.0", "{}.0"), ("002", " {} ")]
)
def test_what_a_spreadsheet_makes_of_a_number_is_the_same_number(
    forms, responses, tmp_path, sheet, item
):
    answers = responses[1].answers.items()
    rows = [
        {"sheet": sheet, "item": item.format(n), "question": "best", "answer": a["best"]}
        for n, a in answers
    ]
    result = collect(
        forms.sheets, read_responses([write_csv(tmp_path / "typed.csv", rows)], forms.sheets.digest)
    )
    assert [(rater.sheet, rater.answers) for rater in result.used()] == [
        ("002", responses[1].answers)
    ]
    crowd = {"WorkerId": "A", "Input.sheet": sheet, "Answer.consent": "on"}
    crowd |= {f"Answer.{number}.best": answer["best"] for number, answer in answers}
    result = collect(
        forms.sheets,
        read_responses([write_csv(tmp_path / "crowd.csv", [crowd])], forms.sheets.digest),
    )
    assert [rater.sheet for rater in result.used()] == ["002"]


def test_simulated_raters_are_marked_and_not_mixed_with_people(forms, responses, tmp_path):
    simulate(sheets=forms.folder / "sheets.json", out=tmp_path / "simulated.json")
    assert all(
        entry["simulated"] for entry in json.loads((tmp_path / "simulated.json").read_text())
    )
    result = forms.imported(tmp_path / "simulated.json", tmp_path / "responses.json")
    assert result.simulated and len(result.raters) == len(forms.sheets.sheets)
    everyone = [*read_responses([tmp_path / "simulated.json"], ""), Submission("x", responses[0])]
    with refused(DataError, "simulated"):
        collect(forms.sheets, everyone)


def test_clickers_among_simulated_raters_are_caught_by_gold_items(tmp_path):
    study = study_of(
        "visualgpt/t6", images=10, items=10, raters=20, pixels=64, simulated={"clickers": 0.5}
    )
    forms = make(tmp_path, study, 40)
    responses = [
        Submission("x", simulated_response(forms.sheets, sheet)) for sheet in forms.sheets.sheets
    ]
    result = collect(forms.sheets, responses)
    # Of 60 raters half click at random;
    # five gold items of four captions let one in 1024 of them pass.
    assert 15 < result.excluded()["wrong_gold"] < 45
    assert all(rater.wrong_gold == 0 for rater in result.used())
