"""A table in the layout of a paper as LaTeX (booktabs), Markdown and CSV."""

from __future__ import annotations

from recap.core.files import csv_text, no_formula
from recap.reporting import latex, markdown
from recap.reporting.content import NONE
from recap.reporting.latex import PACKAGES, escape, fitted, label_name, signed, superscript
from recap.reporting.markdown import escape_cell, marked, page
from recap.reporting.paper import PaperRow, PaperTable, Score, short_name
from recap.settings.tables import heading

COLUMN, PAGE = 219.0, 455.0  # points: the narrowest column of two that is in use, and its page (ACL; CVPR 237, 497)
_SIZE, _SMALL = 8.0, 6.0  # points: numbers, and their standard deviations
_GAP, _WIDE_GAP = 3.0, 9.0  # between two columns: at least, and where there is room
# Widths in Times, in thousandths of the size; other characters are as wide as a lower-case letter on average.
_NARROW, _WIDE, _DIGIT, _CAPITAL, _LETTER = 290, 790, 500, 680, 470


def paper_latex(table: PaperTable, name: str) -> str:
    """Return a ``table`` environment of one line per row, a ``table*`` where a column of two is too narrow."""
    least = width(table)
    environment, room = ("table", COLUMN) if least <= COLUMN else ("table*", PAGE)
    # Room that is left goes between the columns; a twentieth stays, as widths are rough.
    gap = min(_WIDE_GAP, _GAP + max(0.0, 0.95 * room - least) / len(table.columns))
    spread = any(score.sd for row in table.rows for score in row.scores)
    # Means end at one place, their standard deviations begin there.
    cells = ("r@{}l" if spread else "r") * len(table.columns)
    edge = r"@{\hspace{3pt}}" if any(row.scores[-1].mark for row in table.rows) else "@{}"
    printed = [_line(row, spread) for row in table.rows if row.printed]
    sentences = " ".join([f"{table.title}.", *filter(None, [table.scale]), *table.legend])
    below = "\\par\n".join([*latex.footnotes(table.footnotes), escape(table.note)])
    lines = [
        f"% made by recap: table {escape(name)}, one line per row; changes are lost when it is rebuilt",
        PACKAGES,
        rf"\begin{{{environment}}}[tbp]",
        r"\centering",
        rf"\caption{{{escape(sentences)}}}",
        rf"\label{{tab:{label_name(name)}-paper}}",
        r"\medskip",
        _font(_SIZE),
        *([rf"\def\sd#1{{{{{_font(_SMALL)}\textpm#1}}}}"] if spread else []),
        rf"\setlength{{\tabcolsep}}{{{gap / 2:.3g}pt}}%",
        # In fonts wider than Times the table becomes a little smaller.
        *fitted(
            [
                rf"\begin{{tabular}}{{@{{}}l{cells}{edge}}}",
                r"\toprule",
                " & ".join(["", *(_heading(column, spread) for column in table.columns)]) + r" \\",
                r"\midrule",
                *printed,
                *([r"\midrule"] if printed else []),
                *(_line(row, spread) for row in table.rows if not row.printed),
                r"\bottomrule",
                r"\end{tabular}",
            ]
        ),
        r"\par\smallskip",
        rf"\begin{{minipage}}{{\linewidth}}{_font(7)}\raggedright {below}\end{{minipage}}",
        rf"\end{{{environment}}}",
    ]
    return "\n".join(lines) + "\n"


def paper_markdown(table: PaperTable) -> str:
    """Return the table as Markdown."""
    rows = [["", *(escape_cell(" ".join(short_name(column))) for column in table.columns)]]
    for row in table.rows:
        label = f"{row.label} ({row.origin})" if row.origin else row.label
        rows.append([escape_cell(label) + "".join(map(marked, row.marks)), *map(_markdown_score, row.scores)])
    legend = [sentence for sentence in table.legend if not sentence.startswith("Above the line")]
    return page(table.title, table.scale, rows, [*legend, *markdown.footnotes(table.footnotes), table.note])


def paper_csv(table: PaperTable) -> str:
    """Return one line per row: numbers as the paper shows them, with the name of each metric in full."""
    parts = ("", " sd", " mark")
    doubts = ["doubt"] if table.footnotes else []
    scores = [f"{heading(column)}{part}" for column in table.columns for part in parts]
    lines = [["row", "source", "scale", *scores, *doubts]]
    for row in table.rows:
        scale = "" if row.printed else no_formula(table.scale)
        cells = [value for score in row.scores for value in _csv_score(score, row.printed)]
        texts = " ".join(table.footnotes[mark] for mark in [*row.marks, *(score.doubt for score in row.scores)] if mark)
        notes = [no_formula(texts)] if doubts else []
        lines.append([no_formula(row.label), no_formula(row.source), scale, *cells, *notes])
    return csv_text(lines)


def width(table: PaperTable) -> float:
    """Return about how many points wide the lines are, in Times."""
    total = max(_text_width(row.label, _SIZE) for row in table.rows)
    for index, column in enumerate(table.columns):
        scores = [row.scores[index] for row in table.rows]
        means = max(_text_width(score.mean, _SIZE) for score in scores)
        spreads = max(_text_width(f"±{score.sd}", _SMALL) if score.sd else 0 for score in scores)
        total += _GAP + max(means + spreads, *(_text_width(word, _SIZE) for word in short_name(column)))
    return total


def _text_width(text: str, size: float) -> float:
    """Return about how many points wide a text is in Times."""
    return sum(map(_char_width, text)) * size / 1000


def _char_width(char: str) -> int:
    if char in "ijltfrI .,:;'|()[]/-":
        return _NARROW
    if char in "mwMW%@":
        return _WIDE
    if char.isdigit() or char in "±+":
        return _DIGIT if char.isdigit() else 560
    return _CAPITAL if char.isupper() else _LETTER


def _font(size: float) -> str:
    return rf"\fontsize{{{size:g}}}{{{1.2 * size:.3g}}}\selectfont"


def _heading(column: str, spread: bool) -> str:
    words = [escape(word) for word in short_name(column)]
    text = words[0] if len(words) == 1 else r"\shortstack{" + r"\\".join(words) + "}"
    return rf"\multicolumn{{2}}{{c}}{{{text}}}" if spread else text


def _line(row: PaperRow, spread: bool) -> str:
    label = escape(row.label) + superscript(",".join(row.marks))
    return " & ".join([label, *(_latex_score(score, spread) for score in row.scores)]) + r" \\"


def _latex_score(score: Score, spread: bool) -> str:
    """Return a mean, bold if it is the best, and in the next column its standard deviation and dagger."""
    mean = signed(score.mean)
    mean = rf"\textbf{{{mean}}}" if score.best else mean
    doubt = rf"\rlap{{{superscript(score.doubt)}}}" if score.doubt else ""
    if not spread:
        return mean + doubt
    sd = rf"\sd{{{escape(score.sd)}}}" if score.sd else ""
    return f"{mean}&{sd}{doubt}" + (r"\rlap{$^\dagger$}" if score.mark else "")


def _markdown_score(score: Score) -> str:
    mean = f"**{score.mean}**" if score.best else score.mean
    return mean + (f" ± {score.sd}" if score.sd else "") + (" †" if score.mark else "") + marked(score.doubt)


def _csv_score(score: Score, printed: bool) -> list[str]:
    if score.mean == NONE:
        return ["", "", ""]
    return [score.mean, score.sd, "" if printed else str(score.mark)]
