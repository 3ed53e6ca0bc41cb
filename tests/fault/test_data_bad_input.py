"""Broken annotations and pictures: one sentence with the file,
key or id and a remedy, and nothing half-written."""

import json
import random
import shutil
import zipfile
from pathlib import Path

import pytest

from helpers.generators import jpeg, write_flickr
from helpers.refusals import refused
from recap.core import checksums
from recap.core.errors import (
    ChangedFile,
    DamagedData,
    DamagedFile,
    DataError,
    MissingData,
    RecapError,
)
from recap.data.card import write_card
from recap.data.corpus import Corpus, build_corpus
from recap.data.files.images import ImageSource, TooManyPixels
from recap.data.subsets import draw_subset, read_subset
from recap.data.vocabulary import build_vocabulary, load_vocabulary
from recap.settings.datasets import ScenesDataset

SPEC = {"kind": "karpathy", "annotations": "dataset.json", "images": ["images.zip"]}


def image(content, number=0):
    return content["images"][number]


def sentence(content):
    return content["images"][0]["sentences"][1]


CHANGES = {
    "half a surrogate": (
        lambda c: sentence(c).update(raw="a \ud83d dog"),
        "0: sentences.1.raw: Input should be a valid string, unable to parse raw data as a unicode",
    ),
    "tokens no list": (
        lambda c: sentence(c).update(tokens="a dog"),
        "image number 0: sentences.1.tokens",
    ),
    "sentid twice": (
        lambda c: sentence(c).update(sentid=7),
        "image id 1, caption id 7: is duplicated",
    ),
    "misspelt split": (
        lambda c: image(c).update(split="trian"),
        "split: there is no 'trian'; did you mean 'train'?",
    ),
    "split without images": (
        lambda c: image(c, 3).update(split="train"),
        "the split 'val' has no images",
    ),
    "missing image": (
        lambda c: image(c, 2).update(filename="x.jpg"),
        "x.jpg: the picture of image id 2 is not in",
    ),
    "one picture for two images": (
        lambda c: image(c, 5).update(filename="other/0000_ab.jpg"),
        "other/0000_ab.jpg (image id 5) and 0000_ab.jpg (image id 0) are found as one picture",
    ),
    "several views": (
        lambda c: image(c, 2).update(filename="0000_ab.jpg|0001_ab.jpg"),
        "image id 2 has the file '0000_ab.jpg|0001_ab.jpg', and '|' separates the views of an "
        "image in the corpus",
    ),
    "unsafe name": (
        lambda c: image(c, 2).update(filename="../x.jpg"),
        "'../x.jpg': not a safe name",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_spoilt_annotations(tmp_path, name):
    change, message = CHANGES[name]
    inputs = write_flickr(tmp_path / "in", change=change)
    with pytest.raises(DataError) as caught:
        build_corpus(name="t", spec=SPEC, inputs=inputs, out=tmp_path / "out")
    text = str(caught.value)
    assert message in text
    assert "\n" not in text
    assert not list(tmp_path.glob("out/*"))


def damaged_directory(path, names):
    """Write a zip whose list of contents is damaged, though its end is whole."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "{}")
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x01\x02")] ^= 255
    path.write_bytes(content)
    return path


def test_a_zip_with_a_damaged_directory_is_named(tmp_path):
    path = damaged_directory(tmp_path / "z.zip", ["a.jpg"])
    with refused(DamagedData, "z.zip"):
        ImageSource([path]).read("a.jpg")
    path = damaged_directory(tmp_path / "captions.zip", ["a.json"])
    with refused(DamagedData, "captions.zip"):
        build_corpus(
            name="t", spec={**SPEC, "annotations": path.name}, inputs=tmp_path, out=tmp_path / "out"
        )


def test_missing_pictures_and_roots_are_named(tmp_path):
    with refused(DataError, "x.jpg"):
        ImageSource([tmp_path]).read("x.jpg")
    with refused(MissingData, "nowhere"):
        ImageSource([tmp_path / "nowhere"])
    (tmp_path / "half.zip").write_bytes(b"PK\x03\x04 half a download")
    with refused(DataError, "half.zip"):
        ImageSource([tmp_path / "half.zip"])


def test_too_many_pixels_are_refused_before_decoding(tmp_path, monkeypatch):
    monkeypatch.setattr("recap.data.files.images.MAX_PIXELS", 1000)
    (tmp_path / "a.jpg").write_bytes(jpeg(1))
    with refused(TooManyPixels, "a.jpg", "32 x 40 pixels"):
        ImageSource([tmp_path]).open_rgb("a.jpg")


@pytest.mark.parametrize(
    "name", ["../a.jpg", "/etc/passwd", "b/../../a.jpg", "", "..\\a.jpg", "a\0.jpg"]
)
def test_unsafe_names_are_refused(tmp_path, name):
    with refused(DataError, repr(name), "safe"):
        ImageSource([tmp_path]).read(name)


def test_a_missing_or_foreign_corpus(tmp_path):
    with refused(MissingData, "`recap data corpus`"):
        Corpus.read(tmp_path / "corpus.parquet")
    (tmp_path / "corpus.parquet").write_bytes(b"")
    with refused(DamagedData, "corpus.parquet"):
        Corpus.read(tmp_path / "corpus.parquet")


def test_changed_vocabularies_and_subsets_are_refused(data, tmp_path):
    vocabulary, subset = (
        Path(shutil.copy(data / name, tmp_path)) for name in ("vocabulary.json", "seed-1.json")
    )
    values = json.loads(vocabulary.read_text())
    values["words"][0], values["words"][1] = values["words"][1], values["words"][0]
    vocabulary.write_text(json.dumps(values))
    subset.write_text(subset.read_text().replace('"seed": 1', '"seed": 2'))
    # Files without a list of hashes are judged by the hash inside.
    for load, path in ((load_vocabulary, vocabulary), (read_subset, subset)):
        with refused(DamagedData, path.name):
            load(path)
    vocabulary.write_text("[]")
    with refused(DamagedFile, "vocabulary.json"):
        load_vocabulary(vocabulary)


SCENES = ScenesDataset(kind="scenes", train=12, val=3, test=3, size=32)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    build_corpus(name="t", spec=SCENES, inputs=folder, out=folder)
    corpus = folder / "corpus.parquet"
    build_vocabulary(
        corpus=corpus, rule=SCENES.vocabulary, inputs=Path(), out=folder / "vocabulary.json"
    )
    draw_subset(
        corpus=corpus, name="half", fraction=0.5, unit="image", seed=1, out=folder / "seed-1.json"
    )
    write_card(name="t", corpus=corpus, counts=None, out=folder / "card.md")
    return folder


def test_everything_that_the_jobs_leave_is_listed(data):
    left = {path.name for path in data.iterdir()} - {checksums.NAME}
    assert set(checksums.recorded(data)) == left
    assert left >= {
        "corpus.parquet",
        "images.zip",
        "boxes.json",
        "vocabulary.json",
        "seed-1.json",
        "card.md",
    }


READERS = {
    "corpus.parquet": Corpus.read,
    "vocabulary.json": load_vocabulary,
    "seed-1.json": read_subset,
}


@pytest.mark.parametrize("name", READERS)
def test_every_flipped_bit_is_refused(data, name):
    path, chance = data / name, random.Random(0)
    content = path.read_bytes()
    try:
        for _ in range(50):
            changed = bytearray(content)
            changed[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            path.write_bytes(changed)
            with refused(ChangedFile, name):
                READERS[name](path)
    finally:
        path.write_bytes(content)
    READERS[name](path)


def test_pictures_in_a_zip_are_guarded_by_the_zips_own_check_sums(data, tmp_path):
    content, chance = (data / "images.zip").read_bytes(), random.Random(0)
    files = list(Corpus.read(data / "corpus.parquet").files().values())
    whole = {file: ImageSource([data / "images.zip"]).read(file) for file in files}
    refused = 0
    for number in range(200):
        changed = bytearray(content)
        changed[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path = tmp_path / f"{number}.zip"
        path.write_bytes(changed)
        try:
            source = ImageSource([path])
            assert {file: source.read(file) for file in files} == whole
        except RecapError:
            refused += 1
    assert refused > 100
