"""Captions that another program made, in the three forms, and what is refused about them."""

import csv
import io
import json

import pytest

from helpers.refusals import refused
from recap.core.errors import DataError
from recap.data.caption_files import read_captions
from recap.data.corpus import Caption, Corpus, write_corpus

FILES = {1: "val2014/one.jpg", 2: "val2014/two.jpg", 3: "a/same.jpg", 4: "b/same.jpg"}
SPLITS = {1: "test", 2: "test", 3: "train", 4: "val"}
SAID = {1: "a red ball", 2: 'a dog, "asleep"'}


@pytest.fixture
def corpus(tmp_path):
    rows = (Caption(i, FILES[i], SPLITS[i], i, f"reference {i}", ["reference"]) for i in FILES)
    write_corpus(
        rows, tmp_path / "corpus.parquet", dataset="mine", kind="test", source_sha256="0" * 64
    )
    return Corpus.read(tmp_path / "corpus.parquet")


def written(tmp_path, content, name="captions"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def as_csv(rows, delimiter=","):
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(rows)
    return text.getvalue()


FORMS = {
    "COCO's results form": json.dumps(
        [{"image_id": i, "caption": text} for i, text in SAID.items()]
    ),
    "JSON lines with ids": "".join(
        json.dumps({"image_id": i, "caption": t}) + "\n" for i, t in SAID.items()
    ),
    "JSON lines with files": "\n".join(
        json.dumps({"file": FILES[i], "caption": t}) for i, t in SAID.items()
    ),
    "ids as texts": json.dumps([{"image_id": str(i), "caption": text} for i, text in SAID.items()]),
    "captions by id": json.dumps(SAID),
    "captions by name": json.dumps({FILES[i]: text for i, text in SAID.items()}),
    "CSV with ids": as_csv([("image_id", "caption"), *SAID.items()]),
    "CSV with names of pictures": as_csv(
        [("image", "caption"), ("one.jpg", SAID[1]), ("./two.jpg", SAID[2])]
    ),
    "CSV with semicolons and further columns": as_csv(
        [("caption", "score", "file"), (SAID[1], "nan", FILES[1]), (SAID[2], "", FILES[2])], ";"
    ),
    "CSV with bars": as_csv(
        [("Image", "Caption"), ("one.jpg", SAID[1]), ("two.jpg", SAID[2])], "|"
    ),
    "CSV with a space after the separator": (
        f'image_name| caption\none.jpg| {SAID[1]}\ntwo.jpg| "a dog, ""asleep"""\n'
    ),
    "CSV with folders of another machine": as_csv(
        [("file", "caption"), ("C:\\data\\one.jpg", SAID[1]), ("/home/me/val2014/two.jpg", SAID[2])]
    ),
    "CSV with ids as numbers with a point": (
        f'image_id,caption\n1.0,{SAID[1]}\n2.0,"a dog, ""asleep"""\n'
    ),
    "CSV with a column id of the rows": as_csv(
        [("id", "file", "caption"), (7, "one.jpg", SAID[1]), (1, "two", SAID[2])]
    ),
    "names as ids": json.dumps(
        [{"image_id": FILES[i], "caption": text} for i, text in SAID.items()]
    ),
    "ids and names": json.dumps(
        [{"image_id": i, "file": FILES[i], "caption": t} for i, t in SAID.items()]
    ),
    "the key generated_text": json.dumps(
        [{"file": FILES[i], "generated_text": text} for i, text in SAID.items()]
    ),
    "lists under the key text": json.dumps(
        [{"image": FILES[i], "text": [text]} for i, text in SAID.items()]
    ),
    "CSV with a column pred": as_csv([("image_id", "pred"), *SAID.items()]),
    "a caption beside another text": json.dumps(
        [{"image_id": i, "text": "a reference", "caption": text} for i, text in SAID.items()]
    ),
    "CSV with a caption beside another text": as_csv(
        [("text", "image_id", "caption"), *(("a reference", i, text) for i, text in SAID.items())]
    ),
    "the key id": json.dumps([{"id": i, "caption": text} for i, text in SAID.items()]),
    "lists of captions by id": json.dumps({i: [text] for i, text in SAID.items()}),
    "COCO's annotations": json.dumps(
        {
            "images": [],
            "annotations": [{"image_id": i, "id": 9 - i, "caption": t} for i, t in SAID.items()],
        }
    ),
    "indented objects": "\n".join(
        json.dumps({"image_id": i, "caption": t}, indent=2) for i, t in SAID.items()
    ),
    "a byte order mark": b"\xef\xbb\xbf"
    + as_csv([("image_id", "caption"), *SAID.items()]).encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_gives_the_same_captions(form, corpus, tmp_path):
    assert read_captions(written(tmp_path, FORMS[form]), corpus, "test") == SAID


def test_captions_of_other_splits_are_left_out(corpus, tmp_path):
    whole = {**SAID, 3: "of the training", 4: "of the validation"}
    path = written(tmp_path, json.dumps([{"image_id": i, "caption": t} for i, t in whole.items()]))
    assert read_captions(path, corpus, "test") == SAID
    assert read_captions(path, corpus, "val") == {4: "of the validation"}


def entries(**changes):
    return json.dumps([{"image_id": 1, "caption": "a"}, {"image_id": 2, "caption": "b", **changes}])


WRONG = {
    "an unknown id": (entries(image_id=9), "entry 2: 9"),
    "a duplicate id": (entries(image_id=1), "entry 2"),
    "a missing image": (json.dumps([{"image_id": 1, "caption": "a"}]), "image 2"),
    "two captions of an image": (entries(caption=["a", "b"]), "image 2"),
    "no key of a caption": (
        json.dumps([{"image_id": 1, "answer": "a"}]),
        "entry 1: the caption of image 1, None",
    ),
    "two keys that may be the caption": (
        json.dumps([{"image_id": 1, "text": "a", "pred": "b"}]),
        "under the key 'caption'",
    ),
    "a column twice": ("image_id,caption,Caption\n1,a,b\n", "line 1: 'Caption' is there twice"),
    "NaN for a caption": (entries(caption=float("nan")), "nan"),
    "an id between two numbers": ("image_id,caption\n1,a\n2.5,b\n", "'2.5'"),
    "an id and a file that disagree": (entries(file="one.jpg"), "2 and 'one.jpg'"),
    "a key twice": ('[{"image_id": 1, "caption": "a", "caption": "b"}]', "twice"),
    "a double quote at the beginning": (
        'image_id\tcaption\n1\t"Hi" said the man\n',
        "double quotes",
    ),
    "half of a surrogate pair": (entries(caption="a \ud800"), "Unicode"),
    "a caption without end": (entries(caption="word " * 3_000), "10,000"),
    "nested too deeply": ("[" * 100_000, "not valid JSON"),
    "an empty file": ("\n", "line 1"),
    "not UTF-8": ("image_id,caption\n1,caf\xe9\n".encode("latin-1"), "byte 22"),
    "a CSV row with a column too many": ("image_id,caption\n1,a,b\n", "line 2"),
    "a name of two pictures": ("file,caption\nsame.jpg,a\n", "same.jpg"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_in_one_sentence(case, corpus, tmp_path):
    content, named = WRONG[case]
    path = written(tmp_path, content)
    with refused(DataError, str(path), named):
        read_captions(path, corpus, "test")


@pytest.mark.parametrize("empty", ["", ".", " ... "])
@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_caption_without_words_counts_and_is_warned_of(empty, form, corpus, tmp_path, capsys):
    rows = [(1, "a"), (2, empty)]
    content = entries(caption=empty) if form == "json" else as_csv([("image_id", "caption"), *rows])
    assert read_captions(written(tmp_path, content), corpus, "test") == {1: "a", 2: empty.strip()}
    assert "image 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    "caption", ["<bos> a dog <eos>", "a <unk>", "<s>a dog</s>", "[CLS] a dog", "dog<|endoftext|>"]
)
def test_marks_of_a_vocabulary_are_warned_of(caption, corpus, tmp_path, capsys):
    read_captions(written(tmp_path, entries(caption="a dog < a cat [sic]")), corpus, "test")
    assert not capsys.readouterr().err
    assert read_captions(written(tmp_path, entries(caption=caption)), corpus, "test")[2] == caption
    assert caption in capsys.readouterr().err


def test_a_missing_file_and_a_folder_are_refused(corpus, tmp_path):
    for path in (tmp_path / "nowhere", tmp_path):
        with refused(DataError, str(path)):
            read_captions(path, corpus, "test")
