"""Submissions to the COCO caption server."""

import json
import zipfile

import pytest

from helpers.refusals import refused
from recap.cli import main
from recap.core.errors import DamagedFile, DataError
from recap.share.coco_server import write_submission

SIZES = {"val2014": 3, "test2014": 2}


def captions(path, ids, text="a dog"):
    path.write_text(json.dumps([{"image_id": image, "caption": text} for image in ids]))
    return path


@pytest.fixture
def files(tmp_path):
    parts = [captions(tmp_path / "one.json", [9, 4]), captions(tmp_path / "two.json", [5])]
    return {"val2014": parts, "test2014": [captions(tmp_path / "test.json", [2, 1])]}


def test_zip_in_the_form_of_the_server(tmp_path, files):
    out = write_submission(captions=files, algorithm="xlan_4", out=tmp_path / "a.zip", sizes=SIZES)
    with zipfile.ZipFile(out) as archive:
        assert archive.namelist() == ["captions_val2014_xlan_4_results.json", "captions_test2014_xlan_4_results.json"]
        held = [json.loads(archive.read(name)) for name in archive.namelist()]
    assert [entry["image_id"] for entry in held[0]] == [4, 5, 9]
    assert held[1] == [{"image_id": 1, "caption": "a dog"}, {"image_id": 2, "caption": "a dog"}]
    again = write_submission(captions=files, algorithm="xlan_4", out=tmp_path / "b.zip", sizes=SIZES)
    assert out.read_bytes() == again.read_bytes()


@pytest.mark.parametrize(
    ("ids", "text", "kind", "named"),
    [
        ([2], "a dog", DataError, ["test2014", "1 caption", "2 images"]),
        ([2, 2], "a dog", DataError, ["test2014", "image 2", "several"]),
        ([2, 1], " ", DamagedFile, ["bad.json", "caption"]),
        (["2", 1], "a dog", DamagedFile, ["bad.json", "image_id"]),
    ],
)
def test_what_the_server_would_refuse(tmp_path, files, ids, text, kind, named):
    files["test2014"] = [captions(tmp_path / "bad.json", ids, text)]
    with refused(kind, *named):
        write_submission(captions=files, algorithm="x", out=tmp_path / "a.zip", sizes=SIZES)
    assert not (tmp_path / "a.zip").exists()


def test_incomplete_sets_end_with_one_sentence(tmp_path, files, capsys):
    names = [str(path) for path in files["val2014"]], [str(path) for path in files["test2014"]]
    with pytest.raises(SystemExit) as exit_:
        main(["export", "coco-server", "--val", *names[0], "--test", *names[1], "--algorithm", "x", "--out", "a.zip"])
    assert exit_.value.code == 2
    assert "40504 images" in capsys.readouterr().err
