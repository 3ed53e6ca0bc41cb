import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.plans import PARAMS
from helpers.refusals import refused
from recap.core.errors import DataError
from recap.core.hashing import value_hash
from recap.data.corpus import Caption, Corpus, write_corpus
from recap.data.subsets import draw_subset, rank, read_subset, subset_size
from recap.settings.params import load_named

UNITS = ("pair", "image")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "corpus.parquet"
    rows = [
        Caption(image, f"{image}.jpg", "train" if image < 1000 else "test", image * 5 + index, "a dog", ["a", "dog"])
        for image in range(1100)
        for index in range(5)
    ]
    write_corpus(rows, path, dataset="tiny", kind="karpathy", source_sha256="0")
    return path


def draw(corpus, out, fraction, unit, seed=1):
    return draw_subset(corpus=corpus, name="s", fraction=fraction, unit=unit, seed=seed, out=out)


def test_images_come_with_all_their_captions(corpus, tmp_path):
    values = draw(corpus, tmp_path / "s.json", 0.01, "image")
    assert values["caption_ids"] == [image * 5 + index for image in values["image_ids"] for index in range(5)]


def test_seeds_and_units_draw_differently_and_files_say_so(corpus, tmp_path):
    draws = [draw(corpus, tmp_path / f"{unit}{seed}.json", 0.01, unit, seed) for unit in UNITS for seed in (1, 2)]
    assert len({values["hash"] for values in draws}) == 4
    assert len({tuple(values["image_ids"]) for values in draws}) == 4
    assert read_subset(tmp_path / "pair2.json") == draws[1]


def test_ranks_are_equal_on_every_python_version():
    assert rank(range(10), dataset="tiny", unit="pair", seed=1) == [0, 2, 4, 7, 3, 8, 5, 6, 9, 1]


def test_every_subset_of_params_over_four_seeds_is_golden_and_nested(corpus, tmp_path):
    hashes = []
    for unit in UNITS:
        names = [f"{unit}_{percent}" for percent in ("0.1", "0.5", "1", "5", "10", "20", "50", "100")]
        rules = [load_named(PARAMS, "subsets", name) for name in names]
        assert [rule.fraction for rule in rules] == [0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0]
        assert {rule.unit for rule in rules} == {unit}
        for seed in (1, 2, 3, 4):
            draws = [draw(corpus, tmp_path / "s.json", rule.fraction, unit, seed) for rule in rules]
            sets = [set(values["caption_ids"]) for values in draws]
            assert all(small < large for small, large in zip(sets, sets[1:], strict=False))
            assert draws[-1]["caption_ids"] == Corpus.read(corpus).caption_ids("train")
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
