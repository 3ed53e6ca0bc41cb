"""The comparison of a table's rows, from score files to JSON."""

import json
import random
from itertools import combinations
from statistics import fmean

import pytest
from scipy import stats

from helpers.refusals import refused
from helpers.score_files import BASE, BETTER, SIGNATURE, make_table, write_run, write_scores
from recap.core.checksums import NAME, record
from recap.core.documents import read_json
from recap.core.errors import DamagedFile, MetricError, MissingFile, RecapError
from recap.plan.run import row_runs
from recap.statistics.compare import compare_table
from recap.statistics.comparison import compare_paired, holm
from recap.statistics.results import TableResult


def compare(tmp_path, table, seeds):
    return compare_table(
        table=table,
        name="two",
        seeds=seeds,
        scores_root=tmp_path / "scores",
        statistics_out=tmp_path / "two.json",
    )


def with_other_scores(
    tmp_path, images=BETTER, *, row=1, columns=("METEOR", "CIDEr", "SPICE"), seeds=(1,), **written
):
    """Return a table with its seeds; a row has other scores at the last of them."""
    table = make_table(columns=list(columns))
    write_scores(tmp_path / "scores", table, list(seeds))
    (run,) = row_runs(table.rows[row], [seeds[-1]])
    write_run(tmp_path / "scores" / run.path, images, **written)
    return table, list(seeds)


@pytest.fixture
def three(tmp_path):
    table = make_table()
    write_scores(tmp_path / "scores", table, [1, 2, 3])
    return compare(tmp_path, table, [1, 2, 3]), tmp_path


def test_mean_spread_and_distance_to_the_printed_value(three):
    result, folder = three
    cell = result.rows[0].cells["CIDEr"]
    assert cell.values == pytest.approx({"1": 0.30, "2": 0.31, "3": 0.32})
    assert (cell.mean, cell.sd, cell.n) == pytest.approx((0.31, 0.01, 3))
    assert cell.printed_percent == 127.8
    assert cell.difference_to_printed_percent is None  # our settings are not the print's
    assert result.rows[1].cells["CIDEr"].printed_percent is None
    (cell, _) = (
        row.cells["CIDEr"] for row in compare(folder, make_table(as_printed=True), [1, 2, 3]).rows
    )
    assert cell.difference_to_printed_percent == pytest.approx(31 - 127.8)


def test_tests_against_the_baseline(three):
    result, _ = three
    assert result.rows[0].cells["CIDEr"].comparison is None
    comparison = result.rows[1].cells["CIDEr"].comparison
    expected = compare_paired(BASE["CIDEr"], BETTER["CIDEr"])
    assert comparison.difference == pytest.approx(0.25)
    assert comparison.paired.p == pytest.approx(expected.p) == pytest.approx(0.030466, abs=1e-6)
    # METEOR's differences are all zero:
    # one test remains in the family of the t-tests, two in Welch's.
    assert comparison.paired.p_holm == pytest.approx(expected.p)
    assert result.family.tests == {
        "paired.p": 1,
        "paired.p_wilcoxon": 1,
        "welch.p": 2,
        "joint.p": 1,
    }
    assert comparison.welch.p_holm == pytest.approx(2 * comparison.welch.p)


def test_a_difference_that_the_seeds_do_not_support_is_not_marked(tmp_path):
    table = make_table(columns=["CIDEr"])
    write_scores(tmp_path / "scores", table, [1, 2, 3])
    for run, shift in zip(row_runs(table.rows[1], [1, 2, 3]), (-0.3, 0.0, 0.3), strict=True):
        write_run(
            tmp_path / "scores" / run.path, {"CIDEr": [value + shift for value in BETTER["CIDEr"]]}
        )
    comparison = compare(tmp_path, table, [1, 2, 3]).rows[1].cells["CIDEr"].comparison
    assert comparison.paired.p_holm < 0.05 < comparison.welch.p_holm
    assert comparison.mark == 0
    alone = compare(tmp_path, table, [2])
    alone_comparison = alone.rows[1].cells["CIDEr"].comparison
    assert alone_comparison.paired.p_holm < 0.05 and alone_comparison.mark == 0
    assert alone.family.units == ["images"] and alone.family.marked == 0
    assert alone.rows[1].cells["CIDEr"].sd is None and alone_comparison.welch.p_holm is None


def test_a_bleu_that_stands_for_zero_is_not_tested(tmp_path):
    table = make_table(columns=["BLEU-4"])
    images = {
        "transformer": {"BLEU-4": [1e-4, 2e-5, 3e-5, 1e-8]},
        "zodiac": {"BLEU-4": [9e-5, 1e-5, 1e-5, 1e-9]},
    }
    write_scores(tmp_path / "scores", table, [1], images)
    for row in table.rows:
        write_run(tmp_path / "scores" / row_runs(row, [2])[0].path, images[row.id])
    cell = compare(tmp_path, table, [1, 2]).rows[1].cells["BLEU-4"]
    assert cell.mean == pytest.approx(2.750025e-5)  # the score itself stays pycocoevalcap's
    assert cell.comparison.paired.p is None and cell.comparison.welch.p is None
    assert cell.comparison.paired.reason == "all differences are zero"


def test_equal_scores_and_missing_metrics_carry_reasons(three):
    result, _ = three
    cells = result.rows[1].cells
    assert cells["METEOR"].comparison.paired.reason == "all differences are zero"
    assert cells["SPICE"].mean is None and cells["SPICE"].n == 0
    assert cells["SPICE"].reason == "its models are not installed"
    assert "'zodiac' has no SPICE" in cells["SPICE"].comparison.reason


def test_the_file_is_the_result_has_no_nan_and_equal_scores_give_equal_bytes(three):
    result, tmp_path = three
    text = (tmp_path / "two.json").read_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert read_json(tmp_path / "two.json", TableResult) == result
    compare(tmp_path, make_table(), [1, 2, 3])
    assert (tmp_path / "two.json").read_text() == text


def test_image_scores_are_averaged_over_seeds(tmp_path):
    changed = with_other_scores(
        tmp_path, {"CIDEr": [0.0, 0.8, 0.1, 0.3]}, columns=["CIDEr"], seeds=[1, 2]
    )
    paired = compare(tmp_path, *changed).rows[1].cells["CIDEr"].comparison.paired
    base = [value + 0.005 for value in BASE["CIDEr"]]
    assert paired.p == pytest.approx(compare_paired(base, [0.1, 0.7, 0.3, 0.6]).p)


def test_rows_may_lie_in_any_order_of_images(tmp_path):
    backwards = {"CIDEr": BETTER["CIDEr"][::-1]}
    changed = with_other_scores(tmp_path, backwards, columns=["CIDEr"], ids=(14, 13, 12, 11))
    paired = compare(tmp_path, *changed).rows[1].cells["CIDEr"].comparison.paired
    assert paired.p == pytest.approx(compare_paired(BASE["CIDEr"], BETTER["CIDEr"]).p)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("tok:ptb", "tok:simple", "tok"),
        ("refs:5", "refs:4-7", "refs"),
        ("@ab12", "@cd34", "split"),
        ("images:{images}", "images:9", "images"),
        ("beam:3", "beam:5", None),  # rows decoded differently can be compared
        ("recap:0.2.0", "recap:0.1.0", None),  # and rows scored by an earlier version
    ],
)
def test_rows_scored_differently_are_refused(tmp_path, old, new, key):
    changed = with_other_scores(tmp_path, signature=SIGNATURE.replace(old, new))
    if key is None:
        assert new in compare(tmp_path, *changed).rows[1].signatures["1"]
        return
    with refused(MetricError, "'transformer'", "'zodiac'", f"{key} is"):
        compare(tmp_path, *changed)
    assert not (tmp_path / "two.json").exists()


def test_other_images_and_seeds_scored_differently_are_refused(tmp_path):
    changed = with_other_scores(tmp_path, ids=(11, 12, 13, 99))
    with refused(MetricError, "'transformer'", "'zodiac'"):
        compare(tmp_path, *changed)
    other = SIGNATURE.replace("tok:ptb", "tok:simple")
    changed = with_other_scores(tmp_path, BASE, row=0, seeds=[1, 2], signature=other)
    with refused(MetricError, "seed 2", "'ptb'"):
        compare(tmp_path, *changed)


def test_missing_and_broken_files_are_named(tmp_path):
    table = make_table()
    write_scores(tmp_path / "scores", table, [1])
    folder = tmp_path / "scores" / row_runs(table.rows[1], [1])[0].path
    with refused(MissingFile, "metrics.json"):
        compare(tmp_path, table, [1, 2])
    (folder / "scores.test.parquet").write_bytes(b"PAR1 not really")
    with refused(DamagedFile, "scores.test.parquet"):
        compare(tmp_path, table, [1])
    (folder / "scores.test.parquet").unlink()
    with refused(MissingFile, "scores.test.parquet"):
        compare(tmp_path, table, [1])
    write_run(folder, BETTER)
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics["scores"]["SPICE"] = 0.1
    (folder / "metrics.json").write_text(json.dumps(metrics))
    with refused(MetricError, "zodiac@short", "SPICE"):
        compare(tmp_path, table, [1])


def test_every_flipped_bit_of_recorded_scores_is_refused(tmp_path):
    table = make_table()
    write_scores(tmp_path / "scores", table, [1])
    folder = tmp_path / "scores" / row_runs(table.rows[1], [1])[0].path
    files = [
        folder / name for name in ("captions.test.json", "metrics.json", "scores.test.parquet")
    ]
    record(*files)
    expected = compare(tmp_path, table, [1])
    randomness = random.Random(0)
    for number in range(100):
        file = [*files[1:], folder / NAME][number % 3]
        whole = file.read_bytes()
        damaged = bytearray(whole)
        damaged[randomness.randrange(len(whole))] ^= 1 << randomness.randrange(8)
        file.write_bytes(damaged)
        try:
            # a flip in the list's own names harms nothing
            assert compare(tmp_path, table, [1]) == expected
            assert file.name == NAME
        except RecapError as error:
            assert str(folder) in str(error)
        file.write_bytes(whole)


def test_a_flipped_bit_in_scores_that_nobody_recorded_is_no_traceback(tmp_path):
    table = make_table()
    write_scores(tmp_path / "scores", table, [1])
    file = tmp_path / "scores" / row_runs(table.rows[1], [1])[0].path / "scores.test.parquet"
    whole = file.read_bytes()
    refused = 0
    for position in range(0, len(whole), max(1, len(whole) // 100)):
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        file.write_bytes(damaged)
        try:
            compare(tmp_path, table, [1])
        except RecapError:
            refused += 1
    assert refused > 20


def test_all_pairs_are_compared_as_scipy_does_and_corrected_together(tmp_path):
    table = make_table(columns=["METEOR", "CIDEr"], pairs=["CIDEr"])
    third = table.rows[1].model_copy(update={"id": "third", "label": "Third", "model": "third"})
    table = table.model_copy(update={"rows": [*table.rows, third]})
    other = {"METEOR": [0.3, 0.1, 0.2, 0.1], "CIDEr": [0.4, 0.1, 0.6, 0.3]}
    images = {"transformer": BASE, "zodiac": BETTER, "third": other}
    write_scores(tmp_path / "scores", table, [1, 2, 3], images)
    result = compare(tmp_path, table, [1, 2, 3])
    ids = [row.id for row in table.rows]
    assert [(pair.first, pair.second) for pair in result.pairs] == list(combinations(ids, 2))
    values = {row.id: list(row.cells["CIDEr"].values.values()) for row in result.rows}
    p_values = []
    for pair in result.pairs:
        first, second = values[pair.first], values[pair.second]
        assert pair.comparison.difference == pytest.approx(fmean(second) - fmean(first))
        p_values.append(pair.comparison.joint.p)
        welch = stats.ttest_ind(second, first, equal_var=False).pvalue
        assert pair.comparison.welch.p == pytest.approx(welch)
    assert [pair.comparison.joint.p_holm for pair in result.pairs] == holm(p_values)
    against = result.rows[1].cells["CIDEr"].comparison
    (pair,) = (pair for pair in result.pairs if pair.second == ids[1] and pair.first == ids[0])
    assert pair.comparison.paired.p == against.paired.p
    assert read_json(tmp_path / "two.json", TableResult) == result
