"""Tables of one line per row: what is bold and marked,
where printed numbers stand, and what the head says."""

import csv
import io
import re

import pytest

from helpers.invented_scores import invented_statistics
from helpers.plans import PARAMS, planned
from helpers.score_files import BETTER, compared, make_table, table_texts, write_run, write_scores
from recap.plan.run import row_runs
from recap.settings.tables import column_info
from recap.tables.formats import write_table
from recap.tables.frame import table_frame
from recap.tables.styles import OWN_PART, PRINTED_PART, full_table, paper_table
from recap.tables.text import number_text

QUOTED = {"id": "scst", "label": "SCST & co", "printed": {"METEOR": 99.7}}
SCALED = "Four tiny images."
# One table of each paper, as wide and as long as they come, and one with doubts about many numbers.
TABLES = [
    "acf/t1",
    "acf/t2",
    "fusion/t2",
    "visualgpt/t1_f001",
    "xlan/t1",
    "xlan/t2",
    "zodiac/t1_clip_rn50",
]


def paper_of(tmp_path, table, seeds):
    return paper_table(table_frame(table, compared(tmp_path, table, seeds)))


def paper_and_texts(tmp_path, table, seeds, images=None):
    """Return the table of one line per row, and the text of each of its files."""
    write_scores(tmp_path / "scores", table, seeds, images)
    texts = table_texts(tmp_path, table, compared(tmp_path, table, seeds))
    return paper_of(tmp_path, table, seeds), {
        ending: texts[f"paper.{ending}"] for ending in ("tex", "csv", "html", "md")
    }


def test_each_row_is_one_line_with_the_best_bold_a_dagger_for_a_mark_and_the_printed_number_in_gray(
    tmp_path,
):
    _, texts = paper_and_texts(tmp_path, make_table(short_scale=SCALED), [1, 2, 3])
    lines = [
        line for line in texts["tex"].splitlines() if line.startswith(("Transformer", "ZoDIAC"))
    ]
    assert lines[0] == (
        r"Transformer & \textbf{21.0} & \recapsd{1.0} & 31.0 & \recapsd{1.0}\recapprinted{127.8} & "
        r"-- &  \\"
    )
    assert r"\textbf{56.0} & \recapsd{1.0}$^\dagger$ & " in lines[1]
    assert r"\providecommand\recapprinted[1]" in texts["tex"]
    md = re.sub(" +", " ", texts["md"])
    assert "| **21.0**\u00a0±\u00a01.0 | 31.0\u00a0±\u00a01.0 (127.8) | -- |" in md
    assert "| **56.0**\u00a0±\u00a01.0\u00a0† |" in md
    assert '31.0 <span class="sd">± 1.0</span> <span class="beside">(127.8)</span>' in texts["html"]
    assert (
        "seeds 1, 2, 3; 4 test images; pycocoevalcap 1.2, tok ptb, refs 5, beam 3." in texts["md"]
    )
    rows = list(csv.DictReader(io.StringIO(texts["csv"])))
    assert [(row["row"], row["source"], row["scale"]) for row in rows] == [
        ("Transformer", "run", SCALED),
        ("ZoDIAC", "run", SCALED),
    ]
    assert [
        rows[0]["CIDEr printed"],
        *(rows[1][f"CIDEr{part}"] for part in ("", " sd", " mark", " printed")),
    ] == [*("127.8", "56.0", "1.0", "1", "")]


@pytest.mark.parametrize(
    ("scale", "what"), [(SCALED, "another scale, so they"), ("", "the paper's own")]
)
def test_the_head_says_what_is_gray_and_at_which_scale_ours_was_made(scale, what, tmp_path):
    _, texts = paper_and_texts(tmp_path, make_table(short_scale=scale), [1, 2, 3])
    heads = [texts["md"].split("\n|")[0], texts["html"].split("<table")[0].replace("&#x27;", "'")]
    heads.append(next(line for line in texts["tex"].splitlines() if line.startswith(r"\caption")))
    for head in heads:
        assert "In parentheses: what the paper prints" in head and what in head and scale in head
        assert (
            "Bold: best mean of the rows that were run." in head
            and "differs from Transformer" in head
        )


@pytest.mark.parametrize(
    ("scale", "name"), [*((None, name) for name in TABLES), ("photos", "visualgpt/t1_f001")]
)
def test_the_printed_number_of_every_row_is_in_every_style_and_format(name, scale, tmp_path):
    changes = {"selections": [], "short_scale": ""}  # at a scale quoted rows are left out
    table = planned(PARAMS, scale, [name]).tables[name].model_copy(update=changes)
    statistics = invented_statistics(table, [1, 2], tmp_path, images=4)
    frame = table_frame(table, statistics)
    paper, full = paper_table(frame), full_table(frame)
    write_table(name="t", table=table, statistics=statistics, out=tmp_path)
    texts = {file.name[2:]: file.read_text() for file in tmp_path.glob("t.*")}
    assert len(texts) == 8
    rows = [*table.quoted, *table.not_run, *table.rows]
    assert len(paper.lines) == len(full.blocks) == len(rows)
    in_csv = {
        (line["id"], line["metric"]): line["printed"]
        for line in csv.DictReader(io.StringIO(texts["csv"]))
    }
    for row, line, block in zip(rows, paper.lines, full.blocks, strict=True):
        shown = {
            column: number_text(value, column_info(column).digits)
            for column, value in row.printed.items()
        }
        cells = dict(zip(table.columns, line.cells, strict=True))
        assert {
            column: cell.text if line.printed else cell.printed for column, cell in cells.items()
        } == {column: shown.get(column, "--" if line.printed else "") for column in table.columns}
        in_full = next(
            (each.cells for each in block.lines if each.label == "printed"),
            [None] * len(table.columns),
        )
        assert {
            column: cell.text
            for column, cell in zip(table.columns, in_full, strict=True)
            if column in shown
        } == shown
        assert {column: float(in_csv[row.id, column]) for column in shown} == row.printed
        for ending, text in texts.items():
            missing = [
                number for number in shown.values() if ending != "csv" and number not in text
            ]
            assert not missing, (ending, row.id)


def test_a_column_with_a_row_of_one_run_has_no_best(tmp_path):
    rows = [row.model_dump() for row in make_table().rows]
    rows[1]["ensemble"] = True
    paper, _ = paper_and_texts(tmp_path, make_table(rows=rows), [1, 2])
    assert not any(cell.best for line in paper.lines for cell in line.cells)
    assert "without ±: one run" in paper.notes[0]


def test_without_a_mark_the_head_says_so(tmp_path):
    table = make_table(columns=["CIDEr"])
    write_scores(tmp_path / "scores", table, [1, 2, 3])
    for run, shift in zip(row_runs(table.rows[1], [1, 2, 3]), (-0.3, 0.0, 0.3), strict=True):
        write_run(
            tmp_path / "scores" / run.path, {"CIDEr": [value + shift for value in BETTER["CIDEr"]]}
        )
    legend = paper_of(tmp_path, table, [1, 2, 3]).legend
    assert "No difference from Transformer is significant over both images and runs." in legend


def test_quoted_rows_stand_in_a_part_of_their_own_and_are_never_best(tmp_path):
    paper, texts = paper_and_texts(tmp_path, make_table(quoted=[QUOTED]), [1, 2])
    assert [block.label for block in paper.blocks] == [PRINTED_PART, OWN_PART]
    assert paper.lines[0].printed and not paper.lines[0].cells[0].best
    body = texts["tex"].split(r"\midrule")
    assert len(body) == 3 and r"SCST \& co & 99.7 &" in body[1] and "Transformer" in body[2]
    assert "SCST & co (printed)" in texts["md"] and '<tr class="printed">' in texts["html"]
    first = next(csv.DictReader(io.StringIO(texts["csv"])))
    assert (first["source"], first["scale"], first["METEOR printed"], first["METEOR"]) == (
        "printed",
        "",
        "99.7",
        "",
    )


def test_at_another_scale_quoted_rows_are_left_out(tmp_path):
    table = make_table(quoted=[QUOTED], short_scale=SCALED)
    paper, texts = paper_and_texts(tmp_path, table, [1, 2])
    assert not any("SCST" in text for text in texts.values())
    assert "(1) are in the full table" in " ".join(paper.legend)
