"""Subsets of captions, lists of the images that they use, and rows of web pictures that draws
need."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.plans import PARAMS
from helpers.refusals import refused
from recap.core.errors import DataError
from recap.core.hashing import value_hash
from recap.data.corpus import Caption, Corpus, WebSample, write_corpus
from recap.data.subsets import (
    Draw,
    WebDraws,
    draw_subset,
    rank,
    read_used,
    rows_to_fetch,
    rows_with_pictures,
    subset_size,
    write_used,
    write_wanted,
)
from recap.settings.params import load_named

UNITS = ("pair", "image")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "corpus.parquet"
    rows = [
        Caption(
            image,
            f"{image}.jpg",
            "train" if image < 1000 else "test",
            image * 5 + index,
            "a dog",
            ["a", "dog"],
        )
        for image in range(1100)
        for index in range(5)
    ]
    write_corpus(rows, path, dataset="tiny", kind="karpathy", source_sha256="0")
    return path


def draw(corpus, out, fraction, unit, seed=1):
    return draw_subset(corpus=corpus, name="s", fraction=fraction, unit=unit, seed=seed, out=out)


def test_every_subset_of_params_over_four_seeds_is_golden_and_nested(corpus, tmp_path):
    hashes, whole = [], Corpus.read(corpus)
    for unit in UNITS:
        names = [
            f"{unit}_{percent}" for percent in ("0.1", "0.5", "1", "5", "10", "20", "50", "100")
        ]
        rules = [load_named(PARAMS, "subsets", name) for name in names]
        assert [rule.fraction for rule in rules] == [0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0]
        assert {rule.unit for rule in rules} == {unit}
        for seed in (1, 2, 3, 4):
            draws = [draw(corpus, tmp_path / "s.json", rule.fraction, unit, seed) for rule in rules]
            sets = [set(values["caption_ids"]) for values in draws]
            assert all(small < large for small, large in zip(sets, sets[1:], strict=False))
            assert draws[-1]["caption_ids"] == whole.caption_id[whole.rows("train")].tolist()
            hashes += [values["hash"] for values in draws]
    assert len(set(hashes)) == 64
    assert value_hash(hashes) == "ac13fe384f5ac4e7"


@given(st.sets(st.integers(0, 2**40), max_size=40), st.integers(0, 99), st.randoms())
def test_rank_is_a_permutation_that_ignores_the_given_order(ids, seed, random):
    shuffled = sorted(ids)
    random.shuffle(shuffled)
    ranked = rank(shuffled, dataset="d", unit="pair", seed=seed)
    assert sorted(ranked) == sorted(ids)
    assert ranked == rank(sorted(ids), dataset="d", unit="pair", seed=seed)


@given(st.integers(1, 10**7), st.floats(1e-6, 1), st.floats(1e-6, 1))
def test_sizes_grow_with_the_fraction(total, one, other):
    small, large = sorted((one, other))
    assert 0 <= subset_size(total, small) <= subset_size(total, large) <= total
    assert subset_size(total, 1) == total


def test_a_draw_that_leaves_nothing_is_refused(corpus, tmp_path):
    with refused(DataError, "subset 's'"):
        draw(corpus, tmp_path / "s.json", 0.00001, "pair")
    assert not (tmp_path / "s.json").exists()


@pytest.fixture
def few(tmp_path):
    splits = ["train"] * 8 + ["val", "test"]
    rows = [
        Caption(n, f"{n}.jpg", split, 2 * n + k, "a", ["a"])
        for n, split in enumerate(splits)
        for k in (0, 1)
    ]
    write_corpus(rows, tmp_path / "c.parquet", dataset="d", kind="karpathy", source_sha256="0" * 64)
    return tmp_path / "c.parquet"


def test_images_of_all_subsets_and_those_that_are_no_training_images_are_listed(few, tmp_path):
    drawn = set()
    for seed in (0, 1):
        out = tmp_path / f"{seed}.json"
        drawn |= set(
            draw_subset(corpus=few, name="s", fraction=0.25, unit="image", seed=seed, out=out)[
                "image_ids"
            ]
        )
    write_used(
        corpora=[few], subsets=[tmp_path / "0.json", tmp_path / "1.json"], out=tmp_path / "used.txt"
    )
    assert read_used(tmp_path / "used.txt") == sorted(drawn | {8, 9})
    write_used(corpora=[few], subsets=[], out=tmp_path / "used.txt")
    assert read_used(tmp_path / "used.txt") == [8, 9]


def test_data_sets_with_the_same_pictures_share_a_list(few, tmp_path):
    rows = [Caption(n, f"{n}.jpg", "test" if n == 1 else "train", n, "b", ["b"]) for n in range(10)]
    write_corpus(
        rows, tmp_path / "other.parquet", dataset="e", kind="karpathy", source_sha256="0" * 64
    )
    drawn = draw_subset(
        corpus=few, name="s", fraction=0.25, unit="image", seed=0, out=tmp_path / "0.json"
    )
    write_used(
        corpora=[few, tmp_path / "other.parquet"],
        subsets=[tmp_path / "0.json"],
        out=tmp_path / "used.txt",
    )
    assert read_used(tmp_path / "used.txt") == sorted({*drawn["image_ids"], 1, 8, 9})


@pytest.mark.parametrize("text", ["\u00e4", "1\nx\n", "1 2\n"])
def test_a_list_that_is_none_is_refused(tmp_path, text):
    (tmp_path / "used.txt").write_text(text)
    with refused(DataError, "used.txt"):
        read_used(tmp_path / "used.txt")


LINES = WebSample(rows=20_000, held_out=200, seed=0, survival=0.5)


def corpus_of(folder, rows, validation, lines=LINES):
    captions = [
        Caption(n, f"{n}.jpg", "val" if n in validation else "train", n, "a dog", ["a"])
        for n in sorted(rows)
    ]
    about = {"dataset": "web", "kind": "conceptual", "source_sha256": "0" * 64, "drawn_from": lines}
    write_corpus(
        [*captions, Caption(10**7, "t.jpg", "test", 10**7, "x", ["x"])],
        folder / "c.parquet",
        **about,
    )
    return folder / "c.parquet"


def drawn(folder, rows, fraction=0.01, seed=3):
    validation = set(rows_with_pictures(rows, LINES, dataset="web"))
    corpus = corpus_of(folder, rows, validation)
    return draw_subset(
        corpus=corpus, name="s", fraction=fraction, unit="pair", seed=seed, out=folder / "s.json"
    )


def test_few_rows_are_asked_for_and_give_the_draws_of_all_rows(tmp_path):
    alive = set(np.flatnonzero(np.random.default_rng(0).random(LINES.rows) < 0.6).tolist())
    draws = [Draw(fraction=fraction, seed=seed) for seed in (3, 4) for fraction in (0.001, 0.01)]
    write_wanted(
        {"web": WebDraws(held_out=200, seed=0, survival=0.5, draws=draws)},
        rows=LINES.rows,
        out=tmp_path / "wanted.txt",
    )
    wanted = {int(line) for line in (tmp_path / "wanted.txt").read_text().split()}
    assert len(wanted) < 0.08 * LINES.rows
    for seed in (3, 4):
        few, every = (
            drawn(tmp_path, rows, seed=seed)["caption_ids"] for rows in (alive & wanted, alive)
        )
        assert few == every
        assert len(few) == 198  # 1 % of the rows that are not held out
        assert set(drawn(tmp_path, alive & wanted, fraction=0.001, seed=seed)["caption_ids"]) < set(
            few
        )


def test_every_surviving_row_is_drawn_alike():
    lines = WebSample(rows=60, held_out=6, seed=0, survival=0.5)
    alive = set(range(0, 60, 2)) | {1, 3, 5}
    kept = alive - set(rows_to_fetch(lines, None, dataset="web"))
    counts = dict.fromkeys(kept, 0)
    for seed in range(2000):
        for row in rows_with_pictures(kept, lines, Draw(fraction=0.1, seed=seed), dataset="web"):
            counts[row] += 1
    expected = 2000 * 5 / len(kept)
    assert all(abs(count - expected) < 5 * expected**0.5 for count in counts.values())


def test_too_few_survivors_are_one_sentence_and_a_whole_split_is_taken_as_it_is(tmp_path):
    alive = set(range(0, LINES.rows, 10))
    with refused(DataError, "web: ", "validation split", "200", "`survival`"):
        drawn(tmp_path, alive)
    corpus = corpus_of(tmp_path, alive, set())
    with refused(DataError, "fraction=0.01", "seed=3"):
        draw_subset(
            corpus=corpus, name="s", fraction=0.01, unit="pair", seed=3, out=tmp_path / "s.json"
        )
    whole = draw_subset(
        corpus=corpus, name="full", fraction=1, unit="pair", seed=3, out=tmp_path / "s.json"
    )
    assert len(whole["caption_ids"]) == len(alive)
