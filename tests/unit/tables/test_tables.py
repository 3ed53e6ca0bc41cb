"""LaTeX, CSV and Markdown of a table made from statistics; LaTeX is checked by its structure."""

import csv
import html
import io
import re
import shutil
import subprocess
from typing import ClassVar

import pytest

from helpers.refusals import refused
from helpers.score_files import (
    BASE,
    BETTER,
    SIGNATURE,
    compared,
    make_table,
    table_texts,
    write_run,
    write_scores,
)
from recap.core.errors import RecapError
from recap.metrics.base import Metric
from recap.plan.run import row_runs
from recap.settings.metrics import METRICS
from recap.tables.formats import latex_text


def texts(tmp_path, table, seeds=(1, 2, 3)):
    return table_texts(tmp_path, table, compared(tmp_path, table, seeds))


def written(tmp_path, table, seeds=(1, 2, 3), images=None):
    """Write scores of a table, and return the text of each of its files."""
    write_scores(tmp_path / "scores", table, seeds, images)
    return texts(tmp_path, table, seeds)


def records(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return written(tmp_path_factory.mktemp("files"), make_table())


def balanced(tex):
    """Whether braces pair up, escaped ones left aside,
    and every environment that begins ends in order."""
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", tex.replace("\\\\", "")):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    stack = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+\*?)\}", tex):
        if kind == "begin":
            stack.append(name)
        elif not stack or stack.pop() != name:
            return False
    return depth == 0 and not stack


def test_latex_structure(files):
    endings = ["tex", "csv", "html", "md"]
    assert list(files) == [*endings, *(f"paper.{ending}" for ending in endings)]
    tex = files["tex"]
    assert balanced(tex)
    assert [tex.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]
    body = tex.split(r"\midrule")[1].split(r"\bottomrule")[0]
    full = [
        line
        for line in body.splitlines()
        if line.endswith(r"\\") and not line.startswith(r"\multicolumn")
    ]
    # ours, printed; and ours, ours - baseline, p over images, runs and both
    assert len(full) == 2 + 5
    # a number, and what stands beside it
    assert {len(re.findall(r"(?<!\\)&", line)) for line in full} == {2 * 3}


def lines_of(markdown):
    """Label or kind of line -> cells, for the table inside the Markdown."""
    lines = markdown.replace("\u00a0", " ").splitlines()
    rows = [line.strip("|").split(" | ") for line in lines if line.startswith("| ")]
    return [(cells[0].strip(), [cell.strip() for cell in cells[1:]]) for cells in rows]


def test_markdown_shows_ours_printed_differences_and_p(files):
    lines = lines_of(files["md"])
    assert lines[0][1] == ["METEOR", "CIDEr", "SPICE"]
    assert lines[1][0] == "**Transformer (baseline)**"
    assert lines[2] == ("ours (n = 3)", ["**21.0** ± 1.0", "31.0 ± 1.0", "-- [a]"])
    assert lines[3] == ("printed", ["--", "127.8", "--"])
    assert lines[5] == ("ours (n = 3)", ["**21.0** ± 1.0", "**56.0** ± 1.0 †", "-- [a]"])
    assert lines[6] == ("ours minus baseline", ["+0.00", "+25.00", "-- [a]"])
    assert lines[7] == ("p, images (Holm)", ["-- [b]", "0.030", "-- [a]"])
    assert lines[8] == ("p, runs (Holm)", ["1.000", "<0.001", "-- [a]"])
    assert lines[9] == ("p, both (Holm)", ["-- [b]", "0.030", "-- [a]"])
    assert len(lines) == 10
    assert "[a] SPICE was not run: its models are not installed." in files["md"]
    assert "[b] No test: all differences are zero." in files["md"]
    assert "seeds 1, 2, 3" in files["md"] and "tok:ptb" in files["md"]
    assert len({len(line) for line in files["md"].splitlines() if line.startswith("|")}) == 1


def test_a_difference_to_the_print_is_shown_where_data_set_and_settings_are_its_own(tmp_path):
    files = written(tmp_path, make_table(as_printed=True))
    assert lines_of(files["md"])[4] == ("ours minus printed", ["--", "-96.8", "--"])
    assert {row["scale"] for row in records(files["csv"])} == {"paper"}
    text = written(tmp_path, make_table(printed_on=None))["md"]
    assert "(`printed_on`)" in text and "minus printed" not in text


def test_nothing_speaks_of_what_a_table_does_not_have(tmp_path):
    rows = [{**row.model_dump(), "printed": {}} for row in make_table().rows]
    files = written(tmp_path, make_table(rows=rows, scale="", columns=["CIDEr"]))
    shown = {ending: text for ending, text in files.items() if not ending.endswith("csv")}
    text = "".join(
        re.sub(r"<style>.*?</style>|\\\\providecommand.*|^%.*", "", each, flags=re.S)
        for each in shown.values()
    )
    assert not re.search("scale|printed|doubt|<strong></strong>|<li></li>|\n- \n", text, re.I)
    assert "doubt" not in files["csv"] and "printed_p," not in files["csv"]


def test_one_seed_has_no_spread_and_earns_no_mark_in_any_format(tmp_path):
    files = written(tmp_path, make_table(), (5,))
    assert lines_of(files["md"])[2] == ("ours (n = 1)", ["20.0", "30.0", "-- [a]"])
    assert lines_of(files["md"])[-1] == ("p, images (Holm)", ["-- [b]", "0.030", "-- [a]"])
    assert (
        "one seed (5), so no spread" in files["md"] and "nan" not in "".join(files.values()).lower()
    )
    assert "†" not in "".join(files.values()) and "dagger" not in files["tex"]
    assert not re.search(r"\*\*\d", files["md"]) and not re.search(r"<strong>\d", files["html"])
    assert not re.search(r"\\textbf\{\d", files["tex"])
    assert {row["mark"] for row in records(files["csv"])} == {"", "0"}


def test_bold_and_daggers_mean_the_same_in_every_file(tmp_path):
    table = make_table(columns=["CIDEr"])
    for name, images in (("better", None), ("worse", {"transformer": BETTER, "zodiac": BASE})):
        files = written(tmp_path / name, table, (1, 2), images)
        bold = {
            (ending, each)
            for ending, text in files.items()
            for each in re.findall(r"(?:\*\*|\\textbf\{|<strong>)([\d.]+)", text)
        }
        assert bold == {
            (f"{style}{ending}", "55.5")
            for style in ("", "paper.")
            for ending in ("md", "tex", "html")
        }
        marked = {
            ending: text.count("†") + text.count(r"$^\dagger$")
            for ending, text in files.items()
            if "csv" not in ending
        }
        assert set(marked.values()) == {2}  # what it means, and the other row
        assert [line["mark"] for line in records(files["csv"])] == [
            "",
            "1" if name == "better" else "-1",
        ]
        assert [line["best"] for line in records(files["csv"])] == (
            ["0", "1"] if name == "better" else ["1", "0"]
        )


def test_csv_is_tidy_and_exact(files):
    rows = records(files["csv"])
    assert [(row["id"], row["metric"]) for row in rows] == [
        (row, metric)
        for row in ("transformer", "zodiac")
        for metric in ("METEOR", "CIDEr", "SPICE")
    ]
    cider = rows[4]
    assert float(cider["mean"]) == 56
    assert float(cider["paired_p"]) == pytest.approx(0.030466, abs=1e-6)
    assert [float(value) for value in cider["values"].split()] == [55, 56, 57]
    assert cider["seeds"] == "1 2 3"
    assert (cider["mark"], rows[3]["mark"]) == ("1", "0")
    assert float(cider["joint_p"]) >= max(float(cider["paired_p"]), float(cider["welch_p"]))
    assert rows[5]["mean"] == "" and "SPICE" in rows[5]["reason"]


def test_hostile_labels_are_harmless(tmp_path):
    plain = make_table()
    label = '=HYPERLINK("http://x")|a & b_{c} 100% #1 $x$ ~ ^ \\end{table} <b>\nnext αλ→日'
    rows = [plain.rows[0].model_dump(), {**plain.rows[1].model_dump(), "label": label}]
    files = written(
        tmp_path, make_table(rows=rows, title="A & B_1 {50%}", scale="a|b <tiny> #2"), (1, 2)
    )
    assert balanced(files["tex"])
    assert files["tex"].count(r"\end{table*}") == files["paper.tex"].count(r"\end{table") == 1
    assert r"a \& b\_\{c\} 100\% \#1 \$x\$" in files["tex"] and "{[}U+65E5]" in files["tex"]
    assert f"'{' '.join(label.split())}" in {row["label"] for row in records(files["csv"])}
    assert (
        len(
            {
                len(re.findall(r"(?<!\\)\|", line))
                for line in files["md"].splitlines()
                if line.startswith("|")
            }
        )
        == 1
    )
    assert "<b>" not in files["md"] and "<tiny>" not in files["md"]
    assert "<b>" not in files["html"]
    assert "&lt;b&gt; next αλ→日" in files["html"] and "a|b &lt;tiny&gt; #2" in files["html"]


def test_html_holds_the_cells_of_the_markdown_and_loads_nothing(files):
    markdown = files["md"].replace("\u00a0", " ").splitlines()
    rows = [line.strip("| ").split("|") for line in markdown if line.startswith("|")]
    lines = [
        [html.unescape(cell.strip(" *").replace("**", "")) for cell in row]
        for row in rows
        if any(c.strip() for c in row[1:])
    ]
    shown = re.sub(r"<sup>([a-z])</sup>", r" [\1]", files["html"]).replace("<sup>", " ")
    text = html.unescape(
        re.sub(r"<.*?>", "", shown.replace("</th><td>", "").replace("</td><td>", ""))
    )
    assert all("".join(line) in text for line in lines[2:])
    assert not re.search(r"src=|href=|@import|url\(|<script", files["html"])


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("a\\b", r"a\textbackslash{}b"),
        ("x<y|z", r"x\textless{}y\textbar{}z"),
        ("cafe\u0301 é", "café é"),
        ("Łąk", r"Ł{\fontencoding{T1}\selectfont ą}k"),
        ("Việt", r"Vi\^{\d{e}}t"),
        ("ħ日ſ％", r"{[}U+0127]{[}U+65E5]s\%"),
    ],
)
def test_escape(text, latex):
    assert latex_text(text) == latex


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize(
    "head", ["", r"\usepackage[T1]{fontenc}\usepackage{textcomp}", r"\usepackage{times}"]
)
def test_every_letter_can_be_set(tmp_path, head):
    letters = latex_text(
        " ".join(
            map(chr, [*range(0x20, 0x250), *range(0x370, 0x530), *range(0x1E00, 0x1F00), 0x1F600])
        )
    )
    head = rf"\documentclass{{article}}{head}\usepackage{{booktabs,graphicx}}"
    body = rf"{letters}\par\textbf{{{letters}}}\par\texttt{{{letters}}}"
    (tmp_path / "letters.tex").write_text(
        rf"{head}\begin{{document}}{body}\end{{document}}", encoding="utf-8"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "letters.tex"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert "Missing character" not in (tmp_path / "letters.log").read_text(errors="replace")


class Errors(Metric):
    names: ClassVar = ("errors",)
    scale: ClassVar = 1
    digits: ClassVar = 2
    higher_is_better: ClassVar = False

    def version(self):
        return {}

    def score(self, captions):
        raise NotImplementedError


def test_values_stand_on_the_scale_of_their_metric_and_the_better_row_is_bold(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(METRICS, "_entries", {**METRICS._entries, "errors": f"{__name__}:Errors"})
    rows = [{**row.model_dump(), "printed": {"errors": 1.5}} for row in make_table().rows]
    errors = {
        "transformer": {"errors": [1.31, 1.4, 1.52, 1.6]},
        "zodiac": {"errors": [0.1, 0.21, 0.3, 0.4]},
    }
    text = written(tmp_path, make_table(columns=["errors"], rows=rows), (1, 2), errors)["md"]
    lines = dict(lines_of(text.split("**ZoDIAC**")[1]))
    assert lines["ours (n = 2)"] == ["**0.26** ± 0.01 †"]
    assert lines["printed"] == ["1.50"]
    assert lines["ours minus baseline"] == ["-1.205"]
    assert "Not in percent: errors." in text and "Lower is better: errors." in text


def test_rows_with_other_settings_show_each_signature(tmp_path):
    table = make_table()
    write_scores(tmp_path / "scores", table, [1])
    run = row_runs(table.rows[1], [1])[0]
    write_run(
        tmp_path / "scores" / run.path, BETTER, signature=SIGNATURE.replace("beam:3", "beam:5")
    )
    files = texts(tmp_path, table, (1,))
    for row, beam in (("transformer", 3), ("zodiac", 5)):
        assert re.search(rf"beam:{beam}\|[^ ]* \({row}\)", files["md"])


def test_equal_statistics_give_equal_bytes(tmp_path, files):
    assert written(tmp_path, make_table()) == files


def test_statistics_of_another_table_are_refused(tmp_path):
    table = make_table()
    write_scores(tmp_path / "scores", table, [1])
    result = compared(tmp_path, table, [1])
    with refused(RecapError, "'two'", "rows or columns"):
        table_texts(tmp_path, make_table(columns=["CIDEr"]), result)
    assert not (tmp_path / "t").exists()


def doubted(tmp_path, **more):
    """A table with a doubt about itself, a number of a row
    that was run, a quoted number and a quoted row."""
    quoted = {
        "id": "q",
        "label": "Q",
        "printed": {"METEOR": 26.7, "CIDEr": 99.0},
        "printed_p": {"CIDEr": 0.5},
    }
    quoted |= {"doubt": {"CIDEr": "100 % off & odd.", "row": "cited twice"}}
    table = make_table(quoted=[quoted], doubts=["its caption names no stage."])
    change = {
        "doubt": {"CIDEr": "far off"},
        "printed": {"CIDEr": 100.0},
        "printed_p": {"CIDEr": 1e-18},
    }
    table.rows[1] = table.rows[1].model_copy(update=change | more)
    return written(tmp_path, table, (1, 2))


def test_doubts_are_footnotes_of_the_printed_numbers(tmp_path):
    files = doubted(tmp_path)
    lines = lines_of(files["md"])
    assert ("printed [b]", ["26.7", "99.0 [a]", "--"]) in lines
    assert ("printed", ["--", "100.0 [d]", "--"]) in lines
    notes = ["100 % off & odd.", "cited twice.", "far off."]
    whats = ["CIDEr", "row", "CIDEr"]
    for mark, what, note in zip("abd", whats, notes, strict=True):
        assert f"- [{mark}] Doubt about the printed {what}: {note}\n" in files["md"]
        assert (
            f"<li>[{mark}] Doubt about the printed {what}: {html.escape(note)}</li>"
            in files["html"]
        )
    assert (
        '<th scope="row">printed<sup>b</sup></th><td>26.7</td><td>99.0<sup>a</sup></td>'
        in files["html"]
    )
    assert (
        r"printed\textsuperscript{b} & 26.7 &  & 99.0 & \rlap{\textsuperscript{a}}" in files["tex"]
    )
    assert balanced(files["tex"])
    doubts = [line["doubt"].partition(": ")[2] for line in records(files["csv"]) if line["printed"]]
    assert doubts == ["cited twice.", "100 % off & odd.", "", "far off."]
    for ending in ("md", "html", "tex"):
        assert "Doubt about the printed table: its caption names no stage." in files[ending]


def test_the_paper_layout_has_the_doubts_of_its_printed_rows(tmp_path):
    files = doubted(tmp_path)
    assert "| Q (printed)\u00a0[b]" in files["paper.md"] and "99.0\u00a0[a] |" in files["paper.md"]
    assert "- [b] Doubt about the printed row: cited twice.\n" in files["paper.md"]
    assert (
        "(100.0)\u00a0[c]" in files["paper.md"]
        and "[c] Doubt about the printed CIDEr: far off." in files["paper.md"]
    )
    assert (
        r"Q\textsuperscript{b} & 26.7 &  & 99.0 & \rlap{\textsuperscript{a}}" in files["paper.tex"]
    )
    assert (
        r"\textsuperscript{a} Doubt about the printed CIDEr: 100 \% off \& odd.\par"
        in files["paper.tex"]
    )
    assert balanced(files["paper.tex"])
    first = records(files["paper.csv"])[0]
    assert "cited twice" in first["doubt"] and "odd" in first["doubt"]


def test_a_printed_p_stands_above_ours_with_what_its_test_may_have_been_over(tmp_path):
    files = doubted(tmp_path, p_explained_by={"CIDEr": ["images", "pairs"]})
    kinds = [kind for kind, _ in lines_of(files["md"])]
    own = kinds.index("ours minus baseline")
    assert kinds[own + 1 : own + 3] == ["p, printed", "p, images (Holm)"]
    printed = [cells for kind, cells in lines_of(files["md"]) if kind == "p, printed"]
    assert printed == [["--", "0.5", "--"], ["--", "1e-18 [e]", "--"]]
    note = "A t-test over images or over pairs of a run and an image explains this printed p"
    assert all(note in files[ending] for ending in ("md", "html", "tex"))
    none = doubted(tmp_path, p_explained_by={"CIDEr": []})
    assert (
        "[e] No t-test over runs, images, pairs of a run and an image explains this printed p"
        in none["md"]
    )
    assert "explains" not in doubted(tmp_path)["md"]


def test_all_pairs_stand_behind_the_full_table(tmp_path):
    files = written(tmp_path, make_table(pairs=["CIDEr"]))
    text = files["md"].partition("All pairs")[2]
    assert lines_of(text)[0][1] == ["1", "2"]
    assert lines_of(text)[2:] == [
        ("1 Transformer", ["", "-25.0 †"]),
        ("2 ZoDIAC", ["0.030", ""]),
    ]
    assert "p over images and runs, Holm-corrected over 1 pair." in files["html"]
    assert balanced(files["tex"]) and ", all pairs." in files["tex"]
    one = written(tmp_path / "one", make_table(pairs=["CIDEr"]), seeds=[1])
    assert "p over images, Holm-corrected" in one["md"] and "†" not in one["md"]
    assert "One seed allows no test over runs" in one["md"]
