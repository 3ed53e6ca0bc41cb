"""What COCO's server answered, brought in for the tables."""

import json
import re

import pytest

from helpers.server_workspace import answer
from recap.cli import main
from recap.core.files.checksums import record
from recap.statistics.scores import read_answer

FLAT = {f"{key}_{refs}": value for refs, values in json.loads(answer()).items() for key, value in values.items()}


@pytest.fixture
def submission(tmp_path):
    folder = tmp_path / "mine_t2_wide"
    folder.mkdir()
    file = folder / "captions_test2014_mine_t2_wide_results.json"
    file.write_text('[{"image_id": 1, "caption": "a dog"}]')
    record(file)
    return folder


def bring(folder, text, name="answer.txt"):
    (folder.parent / name).write_text(text)
    main(["scores", "import", str(folder.parent / name), "--submission", str(folder), "--date", "2026-11-20"])


@pytest.mark.parametrize(
    "text",
    [
        answer(),
        json.dumps({"result": [{"test_split": json.loads(answer())}]}),
        json.dumps(FLAT),
        "".join(f"{key}: {value}\n" for key, value in FLAT.items()),
        "".join(f"{key.replace('Bleu_', 'BLEU-').replace('_c', ' (c')}) = {value}\n\n" for key, value in FLAT.items()),
    ],
)
def test_json_and_text_give_the_scores_with_their_day(submission, text):
    bring(submission, text)
    found = read_answer(submission)
    assert found.source == "COCO server, 2026-11-20"
    assert len(found.scores) == 14
    assert found.scores["c5.BLEU-1"] == pytest.approx(0.8) and found.scores["c40.CIDEr"] == pytest.approx(1.29)
    assert found.scores["c40.ROUGE-L"] == pytest.approx(0.58) and found.scores["c5.METEOR"] == pytest.approx(0.28)


def without(key):
    return json.dumps({name: value for name, value in FLAT.items() if name != key})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (without("CIDEr_c40"), r"c40.CIDEr is not there \(1 of 14 scores are missing\)"),
        (json.dumps({**FLAT, "ROUGE-L_c5": 0.5}), "gives c5.ROUGE-L twice"),
        (json.dumps({**FLAT, "SPICE_c5": 0.2}), "'SPICE_c5' is no score of"),
        (json.dumps({**FLAT, "Bleu_1": 0.2}), "'Bleu_1' is no score of"),
        (json.dumps({**FLAT, "Bleu_1_c5": 81.1}), "c5.BLEU-1 is 81.1, not a number from 0 to 1; .* no percentages"),
        (json.dumps({**FLAT, "CIDEr_c5": "1.2"}), "c5.CIDEr is '1.2', not a number"),
        (json.dumps({**FLAT, "METEOR_c5": True}), "c5.METEOR is True, not a number"),
        (json.dumps({**FLAT, "METEOR_c5": float("nan")}), "c5.METEOR is nan, not a number"),
        ("{", "not valid JSON"),
        ("<html>Submission failed</html>\n", "line 1 is not like 'c5_Bleu_1: 0.81'"),
        ("", r"c5.BLEU-1 is not there \(14 of 14"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_anything_else_is_refused_in_one_sentence(submission, capsys, text, sentence):
    with pytest.raises(SystemExit) as stopped:
        bring(submission, text)
    assert stopped.value.code == 2
    said = capsys.readouterr().err.strip()
    assert re.search(sentence, said) and "\n" not in said
    assert not (submission / "scores.json").exists()


def test_scores_of_other_captions_are_not_taken(submission):
    bring(submission, answer())
    (submission / "captions_test2014_mine_t2_wide_results.json").write_text("[]")
    assert "scored other captions than those of now" in read_answer(submission)


def test_a_folder_without_what_was_sent_is_refused(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit):
        bring(tmp_path / "empty", answer())
    assert "name the folder that the workflow made for what was sent" in capsys.readouterr().err
