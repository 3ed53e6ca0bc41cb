"""Rows of web pictures that draws need: few, and drawn alike whether the others are fetched or not."""

import numpy as np

from helpers.refusals import refused
from recap.core.errors import DataError
from recap.data.corpus import Caption, DrawnFrom, write_corpus
from recap.data.subsets import Draw, WebDraws, asked, draw_subset, first_survivors, write_wanted

LINES = DrawnFrom(rows=20_000, held_out=200, seed=0, survival=0.5)


def corpus_of(folder, rows, validation, lines=LINES):
    captions = [Caption(n, f"{n}.jpg", "val" if n in validation else "train", n, "a dog", ["a"]) for n in sorted(rows)]
    about = {"dataset": "web", "kind": "conceptual", "source_sha256": "0" * 64, "drawn_from": lines}
    write_corpus([*captions, Caption(10**7, "t.jpg", "test", 10**7, "x", ["x"])], folder / "c.parquet", **about)
    return folder / "c.parquet"


def drawn(folder, rows, fraction=0.01, seed=3):
    validation = set(first_survivors(rows, LINES, dataset="web"))
    corpus = corpus_of(folder, rows, validation)
    return draw_subset(corpus=corpus, name="s", fraction=fraction, unit="pair", seed=seed, out=folder / "s.json")


def test_few_rows_are_asked_for_and_give_the_draws_of_all_rows(tmp_path):
    alive = set(np.flatnonzero(np.random.default_rng(0).random(LINES.rows) < 0.6).tolist())
    draws = [Draw("pair", fraction, seed) for seed in (3, 4) for fraction in (0.001, 0.01)]
    write_wanted({"web": WebDraws(200, 0, 0.5, draws)}, rows=LINES.rows, out=tmp_path / "wanted.txt")
    wanted = {int(line) for line in (tmp_path / "wanted.txt").read_text().split()}
    assert len(wanted) < 0.08 * LINES.rows
    for seed in (3, 4):
        few, every = (drawn(tmp_path, rows, seed=seed)["caption_ids"] for rows in (alive & wanted, alive))
        assert few == every
        assert len(few) == 198  # 1 % of the rows that are not held out
        assert set(drawn(tmp_path, alive & wanted, fraction=0.001, seed=seed)["caption_ids"]) < set(few)


def test_every_surviving_row_is_drawn_alike():
    lines = DrawnFrom(rows=60, held_out=6, seed=0, survival=0.5)
    alive = set(range(0, 60, 2)) | {1, 3, 5}
    kept = alive - set(asked(lines, None, dataset="web"))
    counts = dict.fromkeys(kept, 0)
    for seed in range(2000):
        for row in first_survivors(kept, lines, Draw("pair", 0.1, seed), dataset="web"):
            counts[row] += 1
    expected = 2000 * 5 / len(kept)
    assert all(abs(count - expected) < 5 * expected**0.5 for count in counts.values())


def test_too_few_survivors_are_one_sentence_and_a_whole_split_is_taken_as_it_is(tmp_path):
    alive = set(range(0, LINES.rows, 10))
    with refused(DataError, "web: ", "validation split", "200", "`survival`"):
        drawn(tmp_path, alive)
    corpus = corpus_of(tmp_path, alive, set())
    with refused(DataError, "0.01 of the rows with seed 3"):
        draw_subset(corpus=corpus, name="s", fraction=0.01, unit="pair", seed=3, out=tmp_path / "s.json")
    whole = draw_subset(corpus=corpus, name="full", fraction=1, unit="pair", seed=3, out=tmp_path / "s.json")
    assert len(whole["caption_ids"]) == len(alive)
