import random
import re

import pytest
from PIL import Image

from helpers.generators import jpeg, save_lying
from helpers.refusals import refused
from recap.core.errors import DataError
from recap.data.corpus import Corpus, build_corpus, pictures_of
from recap.data.datasets.csv_captions import draw, read_splits
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
    build_corpus(
        name="t", spec={**SPEC, **changes}, inputs=inputs(folder, content), out=folder / "out"
    )
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
    "semicolons": ROWS.replace('"A rose, in the garden"', "A rose~ in the garden")
    .replace(",", ";")
    .replace("~", ","),
    "tabs": ROWS.replace('"A rose, in the garden"', "A rose~ in the garden")
    .replace(",", "\t")
    .replace("~", ","),
    "a byte order mark": b"\xef\xbb\xbf" + ROWS.encode(),
    "CRLF": ROWS.replace("\n", "\r\n"),
    "empty rows": ROWS.replace("\nleaf", "\n\n,,\nleaf") + ",,\n",
    "spaces": ROWS.replace("file,split,caption", " file, split ,caption").replace(
        "val,", " val , "
    ),
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
    "no column": (ROWS.replace("split,", "spilt,", 1), "line 1: there are 0 columns 'split'"),
    "unknown split": (
        ROWS.replace(",val", ",vall"),
        "line 5: split: there is no 'vall'; did you mean 'val'?",
    ),
    "two splits, two names": (
        ROWS + "./leaf.jpg,test,A leaf\n",
        "line 7: leaf.jpg is in the split 'test'",
    ),
    "comma": (
        ROWS.replace('"', ""),
        "line 3: not a valid CSV row (4 columns where the first line has 3)",
    ),
    "open quote": (
        ROWS.replace('garden"', "garden"),
        "line 3: not a valid CSV row (unexpected end of data)",
    ),
    "no word": (
        ROWS.replace("A green leaf", "?!"),
        "caption id 2: there is no word",
    ),
    "Latin 1": (
        ROWS.replace("green", "grün").encode("latin-1"),
        "line 4: not UTF-8; save the file as UTF-8",
    ),
    "missing picture": (
        ROWS.replace("leaf.jpg", "lea.jpg"),
        "lea.jpg: the picture of image id 0 is not in",
    ),
    "other capitals": (ROWS.replace("leaf.jpg", "Leaf.JPG"), "leaf.jpg is there"),
    "outside": (ROWS.replace("leaf.jpg", "../leaf.jpg"), "'../leaf.jpg': not a safe name"),
    "long captions": (
        ROWS.replace("rose, in the", "rose\nin\nthe") + "gate.jpg,tset,A gate\n",
        "line 9: split: ",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_row_that_is_wrong_is_one_sentence_with_its_line(tmp_path, name):
    content, named = WRONG[name]
    with refused(DataError, named):
        built(tmp_path, content)
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.parametrize(
    "keys, size", [({}, (32, 40)), ({"upright": False}, (40, 32))], ids=["usual", "as stored"]
)
def test_photos_are_upright_unless_the_settings_say_otherwise(tmp_path, keys, size):
    folder = inputs(tmp_path, ROWS)
    save_lying(Image.open(folder / "photos" / "leaf.jpg"), folder / "photos" / "leaf.jpg", 6)
    build_corpus(name="t", spec={**SPEC, **keys}, inputs=folder, out=folder / "out")
    pictures = pictures_of(folder / "out" / "corpus.parquet", [folder / "photos"])
    assert [pictures.open_rgb(file).size for file in ("leaf.jpg", "rose.jpg")] == [size, (32, 40)]


def test_a_random_split_is_drawn_over_images_whatever_the_order_of_rows(tmp_path):
    header, *rows = (
        re.sub(",[^,]*", "", line, count=1) for line in [*ROWS.splitlines(), "gate.jpg,,A gate"]
    )
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
