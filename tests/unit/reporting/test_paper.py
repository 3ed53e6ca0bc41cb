"""Tables in the layout of a paper: one line per row, what is bold and marked, and what the caption says."""

import csv
import io

import pytest

from helpers.score_files import BASE, BETTER, compared, make_table, table_texts, write_run, write_scores
from recap.plan.run import row_runs
from recap.reporting.paper import paper_table, short_name


def paper_and_texts(tmp_path, table, seeds, images=None):
    """Return the paper table and the text of each of its files."""
    write_scores(tmp_path / "scores", table, seeds, images)
    statistics = compared(tmp_path, table, seeds)
    texts = table_texts(tmp_path, table, statistics)
    return paper_table(table, statistics), {ending: texts[f"paper.{ending}"] for ending in ("tex", "csv", "md")}


def test_each_row_is_one_line_with_the_best_bold_and_a_dagger_for_a_mark(tmp_path):
    _, texts = paper_and_texts(tmp_path, make_table(short_scale="Four tiny images."), [1, 2, 3])
    lines = [line for line in texts["tex"].splitlines() if line.startswith(("Transformer", "ZoDIAC"))]
    assert lines[0] == r"Transformer & \textbf{21.0}&\sd{1.0} & 31.0&\sd{1.0} & --& \\"
    assert lines[1] == r"ZoDIAC & \textbf{21.0}&\sd{1.0} & \textbf{56.0}&\sd{1.0}\rlap{$^\dagger$} & --& \\"
    caption = next(line for line in texts["tex"].splitlines() if line.startswith(r"\caption"))
    assert "Two models. Four tiny images. Bold: best mean of the rows that were run." in caption
    assert r"$^\dagger$: differs from Transformer (p \textless{} 0.05 over images, runs and both; Holm)." in caption
    assert "| ZoDIAC      | **21.0** ± 1.0 | **56.0** ± 1.0 † |  -- |" in texts["md"]
    assert "**Four tiny images.**" in texts["md"]
    assert "seeds 1, 2, 3; 4 test images; pycocoevalcap 1.2, tok ptb, refs 5, beam 3." in texts["md"]
    rows = list(csv.DictReader(io.StringIO(texts["csv"])))
    assert [(row["row"], row["source"], row["scale"]) for row in rows] == [
        ("Transformer", "run", "Four tiny images."),
        ("ZoDIAC", "run", "Four tiny images."),
    ]
    assert [rows[1][key] for key in ("CIDEr", "CIDEr sd", "CIDEr mark", "METEOR mark", "SPICE")] == [
        *("56.0", "1.0", "1", "0", "")
    ]


def test_of_one_seed_nothing_is_bold_or_marked(tmp_path):
    paper, texts = paper_and_texts(tmp_path, make_table(), [1])
    assert not any(score.best or score.mark or score.sd for row in paper.rows for score in row.scores)
    assert "One seed (1): no spread, and no difference is marked" in texts["md"]
    for text in texts.values():
        assert "textbf" not in text and "**5" not in text and "dagger" not in text and "†" not in text


def test_a_column_with_a_row_of_one_run_has_no_best(tmp_path):
    rows = [row.model_dump() for row in make_table().rows]
    rows[1]["ensemble"] = True
    paper, _ = paper_and_texts(tmp_path, make_table(rows=rows), [1, 2])
    assert not any(score.best for row in paper.rows for score in row.scores)
    assert "without ±: one run" in paper.note


def test_a_worse_row_has_a_dagger_and_is_not_bold(tmp_path):
    table = make_table(columns=["CIDEr"])
    paper, _ = paper_and_texts(tmp_path, table, [1, 2, 3], {"transformer": BETTER, "zodiac": BASE})
    assert [(row.scores[0].best, row.scores[0].mark) for row in paper.rows] == [(True, 0), (False, -1)]


def test_without_a_mark_the_caption_says_so(tmp_path):
    table = make_table(columns=["CIDEr"])
    write_scores(tmp_path / "scores", table, [1, 2, 3])
    for run, shift in zip(row_runs(table.rows[1], [1, 2, 3]), (-0.3, 0.0, 0.3), strict=True):
        write_run(tmp_path / "scores" / run.path, {"CIDEr": [value + shift for value in BETTER["CIDEr"]]})
    paper = paper_table(table, compared(tmp_path, table, [1, 2, 3]))
    assert "No difference from Transformer is significant over both images and runs." in paper.legend


def test_quoted_rows_stand_above_a_line_and_are_never_best(tmp_path):
    quoted = {"id": "scst", "label": "SCST & co", "printed": {"METEOR": 99.7}}
    paper, texts = paper_and_texts(tmp_path, make_table(quoted=[quoted]), [1, 2])
    assert paper.rows[0].printed and not paper.rows[0].scores[0].best
    body = texts["tex"].split(r"\midrule")
    assert len(body) == 3 and r"SCST \& co & 99.7&" in body[1] and "Transformer" in body[2]
    assert "Above the line: printed numbers, not run." in texts["tex"]
    assert "SCST & co (printed, not run)" in texts["md"]
    first = next(csv.DictReader(io.StringIO(texts["csv"])))
    assert (first["source"], first["scale"], first["METEOR"], first["METEOR mark"]) == ("printed", "", "99.7", "")


def test_hostile_labels_are_harmless(tmp_path):
    rows = [row.model_dump() for row in make_table().rows]
    rows[1]["label"] = '=cmd|" & \\end{table} <b> 100% #1 $x$'
    _, texts = paper_and_texts(tmp_path, make_table(rows=rows, title="A & B_1", short_scale="a|b <i> {50%}"), [1, 2])
    assert texts["tex"].count(r"\end{table}") == 1 and r"\textbackslash{}end\{table\}" in texts["tex"]
    assert r"A \& B\_1. a\textbar{}b \textless{}i\textgreater{} \{50\%\}" in texts["tex"]
    assert "<b>" not in texts["md"] and "<i>" not in texts["md"] and r"=cmd\|" in texts["md"]
    assert "\"'=cmd|" in texts["csv"]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("BLEU-4", ["B-4"]),
        ("ROUGE-L", ["R"]),
        ("True captions", ["True", "captions"]),
        ("c40.CIDEr", ["c40", "C"]),
        ("c5.BLEU-1", ["c5", "B-1"]),
        ("Rating", ["Rating"]),
    ],
)
def test_columns_have_the_short_names_of_papers(column, words):
    assert short_name(column) == words
