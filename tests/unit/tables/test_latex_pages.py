"""Tables on pages of two columns, set by pdfLaTeX where it is installed."""

import re
import shutil
import subprocess

import pytest

from helpers.invented_scores import invented_statistics
from helpers.plans import PARAMS, planned
from recap.tables.formats import write_table
from recap.tables.frame import table_frame
from recap.tables.styles import paper_table

pytestmark = pytest.mark.slow

# One of each paper, two that are as wide as they come, the demo's, and one of few numbers.
TABLES = {
    "recap/demo": "table*",
    "acf/f5": "table",
    "acf/t1": "table*",
    "acf/t2": "table*",
    "zodiac/t1_clip_rn50": "table*",
    "fusion/t2": "table*",
    "xlan/t1": "table*",
    "xlan/t2": "table*",
    "visualgpt/t1_f001": "table*",
}
# Class option, width of a column and of the text in points.
PAGES = {"cvpr": ("10pt", 237.13, 496.85), "acl": ("11pt", 219.08, 455.24)}
FONTS = {"times": r"\usepackage{times}", "computer_modern": ""}
SIZE = 8  # of letters, in points


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The files of every table: id -> its table of one line per row, and the folder of all."""
    folder = tmp_path_factory.mktemp("tables")
    papers = {}
    for number, table_id in enumerate(TABLES):
        table = (
            planned(PARAMS, None, [table_id]).tables[table_id].model_copy(update={"selections": []})
        )
        statistics = invented_statistics(table, [1, 2, 3], folder / str(number))
        write_table(name=table_id.replace("/", "_"), table=table, statistics=statistics, out=folder)
        papers[table_id] = paper_table(table_frame(table, statistics))
    return papers, folder


def latex_of(folder, table_id, ending=".paper"):
    return (folder / f"{table_id.replace('/', '_')}{ending}.tex").read_text()


def test_a_table_of_few_numbers_stands_in_a_column(written):
    texts = {table_id: latex_of(written[1], table_id) for table_id in TABLES}
    assert {
        each: re.search(r"\\begin\{(table\*?)\}", text)[1] for each, text in texts.items()
    } == TABLES


def test_a_table_that_is_longer_than_a_page_is_continued(written):
    tables, folder = written
    text = latex_of(folder, "xlan/t1", "")
    floats = re.findall(r"\\begin\{table\*\}.*?\\end\{table\*\}", text, re.DOTALL)
    assert len(floats) > 1 and max(each.count(r" \\") for each in floats) < 70
    assert (
        text.count(r"\label{") == 1
        and text.count("continued.") == text.count(r"\addtocounter") == len(floats) - 1
    )
    labels = re.findall(r"\\multicolumn\{\d+\}\{@\{\}l\}\{\\textbf\{(.*)\}\} ", text)
    assert len(labels) == len(set(labels)) == len(tables["xlan/t1"].lines)
    assert floats[-1].count("Signature:") == text.count("Signature:") > 0
    assert latex_of(folder, "recap/demo", "").count(r"\begin{table*}") == 1


def pages(folder, page, font, ending, preamble=""):
    """Set all tables in two columns; return the log and,
    table by table, the natural width of its lines."""
    size, column, text = PAGES[page]
    body = ""
    for table_id in TABLES:
        told = rf"\typeout{{lines {table_id}: \the\wd0}}\ifdim\wd0"
        body += latex_of(folder, table_id, ending).replace(r"\ifdim\wd0", told)
    document = rf"""\documentclass[{size},twocolumn]{{article}}
\usepackage[textwidth={text}pt,columnsep={text - 2 * column}pt,textheight=9in]{{geometry}}
\usepackage{{booktabs,graphicx,xcolor}}
{FONTS[font]}
{preamble}
\hfuzz=0pt
\begin{{document}}
Words before the tables.
{body}
\end{{document}}
"""
    job = f"{page}_{font}{ending.replace('.', '_')}"
    (folder / f"{job}.tex").write_text(document)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", f"{job}.tex"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=120
    )
    assert done.returncode == 0, done.stdout[-3000:]
    widths = dict(re.findall(r"^lines (\S+): ([\d.]+)pt", done.stdout, re.MULTILINE))
    return (folder / f"{job}.log").read_text(errors="replace"), {
        name: float(w) for name, w in widths.items()
    }


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
@pytest.mark.parametrize("font", FONTS)
@pytest.mark.parametrize("page", PAGES)
def test_no_line_is_wider_than_its_column(written, page, font):
    tables, folder = written
    for ending in (".paper", ""):
        log, widths = pages(folder, page, font, ending)
        assert "Overfull \\hbox" not in log, re.findall(r"Overfull \\hbox.*", log)
        assert "Float too large" not in log, re.findall(r"Float too large.*", log)
        for table_id, environment in TABLES.items():
            in_column = ending and environment == "table"
            shrunk = min(1, PAGES[page][1 if in_column else 2] / widths[table_id])
            # Fourteen columns with printed numbers, or with every test, are wider than any page.
            least = 6 if len(tables[table_id].columns) <= 10 else 4.8
            assert round(SIZE * shrunk, 1) >= least, table_id


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_an_author_can_leave_the_printed_numbers_out(written):
    _, shown = pages(written[1], "cvpr", "times", ".paper")
    _, without = pages(written[1], "cvpr", "times", ".paper", r"\newcommand\recapprinted[1]{}")
    assert all(without[name] < shown[name] for name in ("xlan/t1", "acf/t1", "zodiac/t1_clip_rn50"))
