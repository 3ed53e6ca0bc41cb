"""Result tables as LaTeX (booktabs)."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

from recap.reporting.content import Block, Content, Entry
from recap.reporting.latex_pages import pages
from recap.reporting.text import plain

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "±": r"$\pm$",
    "×": r"$\times$",
    "†": r"$^\dagger$",
    "→": r"$\rightarrow$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≈": r"$\approx$",
    "Δ": r"$\Delta$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "λ": r"$\lambda$",
}
_PUNCTUATION = "–—‘’“”…•"
_LACKING = "ĦħĸĿŀŉŦŧſ"  # Latin letters that no font of pdfLaTeX has
_T1 = "«»ÐðÞþĐđŊŋĄąĘęĮįŲų"  # what it has in the encoding T1 alone
# Combining characters, each with its accent, which every encoding has.
_MARKS = "\u0300` \u0301' \u0302^ \u0303~ \u0304= \u0306u \u0307. \u0308\" \u030ar \u030bH \u030cv \u0323d \u0327c"
_ACCENTS = {pair[0]: pair[1] for pair in _MARKS.split()}


PACKAGES = r"% needs in the preamble: \usepackage{booktabs,graphicx}"
_MAX_COLUMNS = 6  # that fit the text width of an article at \footnotesize


def escape(text: str) -> str:
    """Return text as LaTeX that sets with any font; a letter that it lacks is `[U+0127]`."""
    return "".join(map(_escape_char, unicodedata.normalize("NFC", plain(text))))


def _escape_char(char: str) -> str:
    """Return one character as LaTeX."""
    if char in _SPECIAL:
        return _SPECIAL[char]
    if char in _T1:
        return rf"{{\fontencoding{{T1}}\selectfont {char}}}"
    if char in _PUNCTUATION or (char <= "\u017f" and char not in _LACKING):
        return char
    decomposed = unicodedata.normalize("NFKD", char)
    base, accents = decomposed[0], decomposed[1:]
    if not (base.isascii() and _ACCENTS.keys() >= set(accents)):
        return f"[U+{ord(char):04X}]"
    return "".join(rf"\{_ACCENTS[accent]}{{" for accent in reversed(accents)) + escape(base) + "}" * len(accents)


def latex_table(content: Content, name: str) -> str:
    """Return ``table*`` environments, as wide as a page of two columns; a comment names the packages they need.

    A float that is taller than a page loses its end, so a long table is continued in further ones.
    """
    scale = rf" \textbf{{{escape(content.scale)}}}" if content.scale else ""
    captions = [
        rf"\caption{{{escape(content.title)}.{scale}}}" + "\n" + rf"\label{{tab:{label_name(name)}}}",
        rf"\addtocounter{{table}}{{-1}}\caption{{{escape(content.title)}, continued.}}",
    ]
    blocks = [_block(block, len(content.columns)) for block in content.blocks]
    parts = pages(blocks, _notes(content), caption=len(content.title) + len(content.scale), small=_small(content))
    lines = [f"% made by recap: table {escape(name)}; changes are lost when it is rebuilt", PACKAGES]
    for number, (shown, notes) in enumerate(parts):
        lines += [r"\begin{table*}[tbp]", r"\centering", captions[min(number, 1)], r"\medskip"]
        lines += [*(_tabular(content, shown) if shown else ()), *(_below(notes) if notes else ()), r"\end{table*}"]
    return "\n".join(lines) + "\n"


def _small(content: Content) -> bool:
    return len(content.columns) > _MAX_COLUMNS


def _tabular(content: Content, blocks: list[list[str]]) -> list[str]:
    """Return blocks as a tabular with the headings, with a little space between the blocks."""
    spaced = [line for block in blocks for line in (r"\addlinespace", *block)][1:]
    columns = content.columns
    return [
        r"\scriptsize" if _small(content) else r"\footnotesize",
        r"\setlength{\tabcolsep}{3pt}",
        *fitted(
            [
                rf"\begin{{tabular}}{{@{{}}l{'r' * len(columns)}@{{}}}}",
                r"\toprule",
                " & ".join(["", *(escape(column) for column in columns)]) + r" \\",
                r"\midrule",
                *spaced,
                r"\bottomrule",
                r"\end{tabular}",
            ]
        ),
    ]


def fitted(tabular: list[str]) -> list[str]:
    """Return the lines of a tabular so that it is set smaller where it would be wider than its column."""
    return [
        r"\sbox0{%",
        *tabular,
        r"}%",
        r"\ifdim\wd0>\linewidth \resizebox{\linewidth}{!}{\usebox0}\else \usebox0\fi",
    ]


def label_name(name: str) -> str:
    """Return the name of a table as a label."""
    return "".join(char if char.isalnum() else "-" for char in name)


def _block(block: Block, columns: int) -> list[str]:
    """Return one row of the table: its label, then its lines."""
    lines = [rf"\multicolumn{{{columns + 1}}}{{@{{}}l}}{{\textbf{{{escape(block.label)}}}}} \\"]
    for line in block.lines:
        # n, p and minus signs in math mode
        kind = escape(line.kind).replace("(n =", "($n$ =").replace("p, ", "$p$, ").replace(" minus ", " $-$ ")
        kind = rf"\enspace {kind}{superscript(line.mark)}"
        lines.append(" & ".join([kind, *map(_cell, line.entries)]) + r" \\")
        spreads = [escape(entry.text.partition(" ± ")[2]) for entry in line.entries]
        if any(spreads):
            spreads = [rf"{{\tiny {spread}}}" if spread else "" for spread in spreads]
            lines.append(" & ".join([r"\enspace\quad $\pm$ sd", *spreads]) + r" \\")
    return lines


def _cell(entry: Entry) -> str:
    """Return one cell without its spread, which is on the next line: beside the means, eight would be too wide."""
    text = entry.text.partition(" ± ")[0]
    # The arrow goes in front, so that the digits stay aligned.
    arrow = text[-1] if text[-1] in "↑↓" else ""
    text = escape(arrow) + signed(text.removesuffix(arrow).strip())
    if entry.strong:
        text = rf"\textbf{{{text}}}"
    return text + (rf"\rlap{{{superscript(entry.mark)}}}" if entry.mark else "")


def superscript(mark: str) -> str:
    """Return the mark of a footnote, or nothing."""
    return rf"\textsuperscript{{{mark}}}" if mark else ""


def footnotes(texts: Mapping[str, str]) -> list[str]:
    """Return the footnotes below a table, each behind its mark."""
    return [f"{superscript(mark)} {escape(text)}" for mark, text in texts.items()]


def signed(text: str) -> str:
    """Return a number with a real minus sign or less-than sign."""
    if text[0] in "+-<" and text[1:2].isdigit():
        return f"${text[0]}${escape(text[1:])}"
    return escape(text)


def _notes(content: Content) -> list[str]:
    """Return the notes below the table."""
    notes = footnotes(content.footnotes) + [escape(note) for note in content.notes]
    # A line may end after each field of a signature.
    fields = [escape(text).replace(r"\textbar{}", r"\textbar{}\allowbreak ") for text in content.signatures]
    return notes + [rf"Signature: \texttt{{{text}}}." for text in fields]


def _below(notes: list[str]) -> list[str]:
    body = "\\par\n".join(notes)
    return [r"\par\smallskip", r"\begin{minipage}{\linewidth}\scriptsize\raggedright", body, r"\end{minipage}"]
