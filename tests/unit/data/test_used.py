import pytest

from helpers.refusals import refused
from recap.core.errors import DataError
from recap.data.corpus import Caption, write_corpus
from recap.data.subsets import draw_subset, read_used, write_used


@pytest.fixture
def corpus(tmp_path):
    splits = ["train"] * 8 + ["val", "test"]
    rows = [Caption(n, f"{n}.jpg", split, 2 * n + k, "a", ["a"]) for n, split in enumerate(splits) for k in (0, 1)]
    write_corpus(rows, tmp_path / "c.parquet", dataset="d", kind="karpathy", source_sha256="0" * 64)
    return tmp_path / "c.parquet"


def test_images_of_all_subsets_and_those_that_are_no_training_images_are_listed(corpus, tmp_path):
    drawn = set()
    for seed in (0, 1):
        out = tmp_path / f"{seed}.json"
        drawn |= set(draw_subset(corpus=corpus, name="s", fraction=0.25, unit="image", seed=seed, out=out)["image_ids"])
    write_used(corpora=[corpus], subsets=[tmp_path / "0.json", tmp_path / "1.json"], out=tmp_path / "used.txt")
    assert read_used(tmp_path / "used.txt") == sorted(drawn | {8, 9})
    write_used(corpora=[corpus], subsets=[], out=tmp_path / "used.txt")
    assert read_used(tmp_path / "used.txt") == [8, 9]


def test_data_sets_with_the_same_pictures_share_a_list(corpus, tmp_path):
    rows = [Caption(n, f"{n}.jpg", "test" if n == 1 else "train", n, "b", ["b"]) for n in range(10)]
    write_corpus(rows, tmp_path / "other.parquet", dataset="e", kind="karpathy", source_sha256="0" * 64)
    drawn = draw_subset(corpus=corpus, name="s", fraction=0.25, unit="image", seed=0, out=tmp_path / "0.json")
    write_used(corpora=[corpus, tmp_path / "other.parquet"], subsets=[tmp_path / "0.json"], out=tmp_path / "used.txt")
    assert read_used(tmp_path / "used.txt") == sorted({*drawn["image_ids"], 1, 8, 9})
    with refused(DataError, "0.json", "--corpus"):
        write_used(corpora=[tmp_path / "other.parquet"], subsets=[tmp_path / "0.json"], out=tmp_path / "used.txt")


@pytest.mark.parametrize("text", ["", "1\nx\n", "2\n1\n", "1\n1\n"])
def test_a_list_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "used.txt").write_text(text)
    with refused(DataError, "used.txt"):
        read_used(tmp_path / "used.txt")
