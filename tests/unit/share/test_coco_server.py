"""COCO's caption server: what it is sent, and what it answered, brought in for the tables."""

import json
import zipfile
from datetime import date

import pytest

from helpers.refusals import refused
from helpers.server_workspace import answer
from recap.cli import main
from recap.core.checksums import record
from recap.core.errors import DamagedFile, DataError
from recap.share import coco_server
from recap.share.coco_server import import_answer, write_submission
from recap.statistics.scores import read_answer


def captions(path, ids, text="a dog"):
    path.write_text(json.dumps([{"image_id": image, "caption": text} for image in ids]))
    return path


@pytest.fixture
def files(tmp_path, monkeypatch):
    parts = [captions(tmp_path / "one.json", [9, 4]), captions(tmp_path / "two.json", [5])]
    monkeypatch.setattr(coco_server, "COCO_PARTS", {"val2014": 3, "test2014": 2})
    return {"val": parts, "test": [captions(tmp_path / "test.json", [2, 1])]}


def test_zip_in_the_form_of_the_server(tmp_path, files):
    out = write_submission(**files, algorithm="xlan_4", out=tmp_path / "a.zip")
    with zipfile.ZipFile(out) as archive:
        assert archive.namelist() == [
            "captions_val2014_xlan_4_results.json",
            "captions_test2014_xlan_4_results.json",
        ]
        held = [json.loads(archive.read(name)) for name in archive.namelist()]
    assert [entry["image_id"] for entry in held[0]] == [4, 5, 9]
    assert held[1] == [{"image_id": 1, "caption": "a dog"}, {"image_id": 2, "caption": "a dog"}]
    again = write_submission(**files, algorithm="xlan_4", out=tmp_path / "b.zip")
    assert out.read_bytes() == again.read_bytes()


@pytest.mark.parametrize(
    ("ids", "text", "kind", "named"),
    [
        ([2], "a dog", DataError, ["test2014", "1 caption", "2 images"]),
        ([2, 2], "a dog", DataError, ["test2014", "image 2", "several"]),
        ([2, 1], 3, DamagedFile, ["bad.json", "caption"]),
    ],
)
def test_what_the_server_would_refuse(tmp_path, files, ids, text, kind, named):
    files["test"] = [captions(tmp_path / "bad.json", ids, text)]
    with refused(kind, *named):
        write_submission(**files, algorithm="x", out=tmp_path / "a.zip")
    assert not (tmp_path / "a.zip").exists()


def test_an_empty_caption_is_sent_as_a_full_stop_and_its_image_is_named(tmp_path, files, capsys):
    captions(files["val"][0], [9, 4], " ")
    out = write_submission(**files, algorithm="x", out=tmp_path / "a.zip")
    with zipfile.ZipFile(out) as archive:
        held = json.loads(archive.read("captions_val2014_x_results.json"))
    assert [entry["caption"] for entry in held] == [".", "a dog", "."]
    said = capsys.readouterr().err
    assert "val2014: 2 of 3" in said and "9, 4" in said


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
    main(
        [
            "scores",
            "import",
            str(folder.parent / name),
            "--submission",
            str(folder),
            "--date",
            "2026-11-20",
        ]
    )


def test_the_scores_are_read_with_their_day(submission):
    bring(submission, f"\n{answer()}")
    found = read_answer(submission)
    assert found.source == "COCO server, 2026-11-20"
    assert len(found.scores) == 14
    assert found.scores["c5.BLEU-1"] == pytest.approx(0.8) and found.scores[
        "c40.CIDEr"
    ] == pytest.approx(1.29)
    assert found.scores["c40.ROUGE-L"] == pytest.approx(0.58) and found.scores[
        "c5.METEOR"
    ] == pytest.approx(0.28)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (answer().replace("c40_CIDEr", "c40_SPICE"), ["line 14"]),
        ("".join(answer().splitlines(True)[:-1]), ["c40.CIDEr", "1 of 14"]),
        (answer() + "c5_ROUGE_L: 0.5\n", ["line 15", "c5.ROUGE-L", "once"]),
        (answer(Bleu_1=81.1), ["c5.BLEU-1 is 81.1", "from 0 to 1 "]),
        (answer(METEOR=float("nan")), ["line 5"]),
        ("<html>Submission failed</html>\n", ["line 1"]),
        ("", ["c5.BLEU-1", "14 of 14"]),
    ],
)
def test_anything_else_is_refused_in_one_sentence(submission, text, named):
    file = submission.parent / "answer.txt"
    file.write_text(text)
    with refused(DataError, file, *named):
        import_answer(answer=file, submission=submission, day=date(2026, 11, 20))
    assert not (submission / "scores.json").exists()


def test_scores_of_other_captions_are_not_taken(submission):
    bring(submission, answer())
    (submission / "captions_test2014_mine_t2_wide_results.json").write_text("[]")
    assert "scored other captions than those of now" in read_answer(submission)
