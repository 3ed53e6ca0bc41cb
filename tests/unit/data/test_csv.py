import random

import pytest

from helpers.generators import jpeg
from helpers.refusals import refused
from recap.core.errors import ConfigError, DataError, MissingData
from recap.data.corpus import Corpus, build_corpus
from recap.data.datasets.csv_captions import SplitRow, draw, read_splits
from recap.data.files.entries import csv_entries
from recap.settings.datasets import Shares

ROWS = """\
file,split,caption
rose.jpg,train,A red rose grows by the wall.
rose.jpg,train,"A rose, in the garden"
leaf.jpg,train,A green leaf
pond.jpg,val,A small blue pond
wall.jpg,test,A grey wall
"""
SHARES = {"train": 0.6, "val": 0.2, "test": 0.2, "seed": 3}
SPEC = {"kind": "csv", "captions": "c.csv", "images": ["photos"]}


def inputs(folder, content):
    """Write a CSV and the five pictures that it may name."""
    (folder / "photos").mkdir()
    for number, name in enumerate(("rose", "leaf", "pond", "wall", "gate")):
        (folder / "photos" / f"{name}.jpg").write_bytes(jpeg(number))
    (folder / "c.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def built(folder, content, **changes):
    """Return the corpus of a CSV as lists."""
    build_corpus(name="t", spec={**SPEC, **changes}, inputs=inputs(folder, content), out=folder / "out")
    table = Corpus.read(folder / "out" / "corpus.parquet")
    columns = (table.column(name).to_pylist() for name in ("file", "split", "caption", "tokens"))
    return list(zip(table.image_id.tolist(), *columns, strict=True))


def test_each_row_is_a_caption_and_ids_number_the_sorted_files(tmp_path):
    rows = built(tmp_path, ROWS)
    assert [row[:3] for row in rows] == [
        (2, "rose.jpg", "train"),
        (2, "rose.jpg", "train"),
        (0, "leaf.jpg", "train"),
        (1, "pond.jpg", "val"),
        (3, "wall.jpg", "test"),
    ]
    assert rows[1][3:] == ("A rose, in the garden", ["a", "rose", "in", "the", "garden"])


SAME = {
    "semicolons": ROWS.replace('"A rose, in the garden"', "A rose~ in the garden").replace(",", ";").replace("~", ","),
    "tabs": ROWS.replace('"A rose, in the garden"', "A rose~ in the garden").replace(",", "\t").replace("~", ","),
    "a byte order mark": b"\xef\xbb\xbf" + ROWS.encode(),
    "CRLF": ROWS.replace("\n", "\r\n"),
    "CR": ROWS.replace("\n", "\r"),
    "no last line break": ROWS.rstrip(),
    "empty rows": ROWS.replace("\nleaf", "\n\n,,\nleaf") + ",,\n",
    "spaces": ROWS.replace("file,split,caption", " file, split ,caption").replace("val,", " val , "),
    "a folder that is none": ROWS.replace("\nleaf", "\n./leaf"),
    "another order of columns": "\n".join(
        ",".join([caption, "x", split, file])
        for file, split, caption in (line.split(",", 2) for line in ROWS.splitlines())
    ).replace("x", "note", 1),
}


@pytest.mark.parametrize("name", SAME)
def test_what_spreadsheets_write_is_read_alike(tmp_path, name):
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
    assert built(tmp_path / "one", SAME[name]) == built(tmp_path / "other", ROWS)


WRONG = {
    "no column": (ROWS.replace("split,", "spilt,", 1), "line 1: there is no column 'split'"),
    "two columns": (ROWS.replace("split,", "file,", 1), "line 1: there are two columns 'file'"),
    "no header": (ROWS.split("\n", 1)[1], "line 1: there is no column 'file'"),
    "empty": ("", "line 1: there is no column 'file'"),
    "unknown split": (ROWS.replace(",val", ",vall"), "line 5: split: there is no 'vall'; did you mean 'val'?"),
    "two splits": (ROWS + "leaf.jpg,test,A leaf\n", "line 7: leaf.jpg is in the split 'test', and in 'train' above"),
    "two splits, two names": (ROWS + "./leaf.jpg,test,A leaf\n", "line 7: leaf.jpg is in the split 'test'"),
    "comma": (ROWS.replace('"', ""), "line 3: not a valid CSV row (4 columns where the first line has 3)"),
    "open quote": (ROWS.replace('garden"', "garden"), "line 3: not a valid CSV row (unexpected end of data)"),
    "quote inside": (ROWS.replace("rose, in", 'ro"se, in'), "line 3: not a valid CSV row"),
    "empty caption": (ROWS.replace("A green leaf", " "), "line 4: the caption of leaf.jpg is empty"),
    "no word": (ROWS.replace("A green leaf", "?!"), "line 4: the caption of leaf.jpg is empty or has no word"),
    "no file": (ROWS.replace("leaf.jpg", ""), "line 4: file: "),
    "Latin 1": (ROWS.replace("green", "grün").encode("latin-1"), "line 4: not UTF-8; save the file as UTF-8"),
    "UTF-16": (ROWS.encode("utf-16"), "line 1: not UTF-8"),
    "missing picture": (ROWS.replace("leaf.jpg", "lea.jpg"), "lea.jpg: the picture of image id 0 is not in"),
    "outside": (ROWS.replace("leaf.jpg", "../leaf.jpg"), "'../leaf.jpg': not a safe name"),
    "absolute": (ROWS.replace("leaf.jpg", "/leaf.jpg"), "'/leaf.jpg': not a safe name"),
    "backslash": (ROWS.replace("leaf.jpg", "photos\\leaf.jpg"), "not a safe name"),
    "long captions": (ROWS.replace("rose, in the", "rose\nin\nthe") + "gate.jpg,tset,A gate\n", "line 9: split: "),
    "empty split": (ROWS.replace("val", "train"), "c.csv: the split 'val' has no images"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_row_that_is_wrong_is_one_sentence_with_its_line(tmp_path, name):
    content, named = WRONG[name]
    with refused(DataError, named):
        built(tmp_path, content)
    assert not list(tmp_path.glob("out/*"))


def without_splits():
    lines = [line.split(",", 2) for line in ROWS.splitlines()]
    return [f"{file},{caption}" for file, _, caption in lines] + ["gate.jpg,A gate"]


def test_a_random_split_is_drawn_over_images_whatever_the_order_of_rows(tmp_path):
    header, *rows = without_splits()
    splits = []
    for seed in range(3):
        random.Random(seed).shuffle(rows)
        path = tmp_path / "c.csv"
        path.write_text("\n".join([header, *rows]))
        splits.append(read_splits(path, Shares(**SHARES)))
    assert splits[0] == splits[1] == splits[2]
    assert sorted(splits[0].values()) == ["test", "train", "train", "train", "val"]


def test_shares_are_kept_and_another_seed_draws_another_split():
    files = [f"{number}.jpg" for number in range(50)]
    splits = draw(files, Shares(train=0.8, val=0.1, test=0.1, seed=1))
    assert [list(splits.values()).count(split) for split in ("train", "val", "test")] == [40, 5, 5]
    assert splits != draw(files, Shares(train=0.8, val=0.1, test=0.1, seed=2))
    # Pinned, so that no version draws another split for a finished run.
    drawn = sorted(file for file, split in splits.items() if split == "test")
    assert drawn == ["1.jpg", "22.jpg", "35.jpg", "43.jpg", "5.jpg"]


def test_a_new_photo_moves_few_others_to_another_split():
    files = [f"{number}.jpg" for number in range(200)]
    shares = Shares(train=0.8, val=0.1, test=0.1)
    before, after = draw(files, shares), draw([*files, "new.jpg"], shares)
    assert sum(before[file] != after[file] for file in files) <= 2


def test_what_does_not_fit_the_split_or_is_not_there_is_refused(tmp_path):
    inputs(tmp_path, ROWS)
    for content, changes, named in (
        (ROWS, {"split": SHARES}, "'split'"),
        ("\n".join(without_splits()), {}, "column 'split'"),
        ("\n".join(without_splits()[:3]), {"split": SHARES}, "split 'val'"),
        ("", {"captions": "nowhere.csv"}, "nowhere.csv"),
    ):
        (tmp_path / "c.csv").write_text(content)
        with refused(MissingData if "captions" in changes else DataError, named):
            build_corpus(name="t", spec={**SPEC, **changes}, inputs=tmp_path, out=tmp_path / "out")


@pytest.mark.parametrize(
    ("shares", "named"),
    [
        ({"train": 0.8, "val": 0.1, "test": 0.2}, ["train", "val", "test", "1.1"]),
        ({"train": 0.9, "val": 0.1}, ["'split.test'"]),
        ({"train": 0.9, "val": 0.1, "test": 0}, ["split.test", "0"]),
    ],
)
def test_shares_that_are_none_are_refused(tmp_path, shares, named):
    with refused(ConfigError, "split", *named):
        build_corpus(name="t", spec={**SPEC, "split": shares}, inputs=tmp_path, out=tmp_path)


def test_rows_are_read_one_at_a_time(tmp_path):
    (tmp_path / "c.csv").write_text(ROWS + "broken,row\n")
    rows = csv_entries(tmp_path / "c.csv", SplitRow)
    assert [next(rows)[0][-6:] for _ in range(5)] == [f"line {number}" for number in range(2, 7)]
    with refused(DataError, "line 7"):
        next(rows)
