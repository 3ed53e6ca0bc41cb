"""A flipped bit in what the data jobs have made is refused by whatever reads it."""

import random
from pathlib import Path

import pytest

from helpers.refusals import refused
from recap.core import checksums
from recap.core.errors import ChangedFile, RecapError
from recap.data.card import write_card
from recap.data.corpus import Corpus, build_corpus
from recap.data.files.images import ImageSource
from recap.data.subsets import draw_subset, read_subset
from recap.data.vocabulary import build_vocabulary, load_vocabulary
from recap.settings.datasets import ScenesDataset

SCENES = ScenesDataset(kind="scenes", train=12, val=3, test=3, size=32)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    build_corpus(name="t", spec=SCENES, inputs=folder, out=folder)
    corpus = folder / "corpus.parquet"
    build_vocabulary(corpus=corpus, rule=SCENES.vocabulary, inputs=Path(), out=folder / "vocabulary.json")
    draw_subset(corpus=corpus, name="half", fraction=0.5, unit="image", seed=1, out=folder / "seed-1.json")
    write_card(name="t", corpus=corpus, counts=None, out=folder / "card.md")
    return folder


def test_everything_that_the_jobs_leave_is_listed(data):
    left = {path.name for path in data.iterdir()} - {checksums.NAME}
    assert set(checksums.recorded(data)) == left
    assert left >= {"corpus.parquet", "images.zip", "boxes.json", "vocabulary.json", "seed-1.json", "card.md"}


READERS = {"corpus.parquet": Corpus.read, "vocabulary.json": load_vocabulary, "seed-1.json": read_subset}


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
