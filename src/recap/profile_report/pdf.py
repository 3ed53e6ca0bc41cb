"""The report as a PDF, where LaTeX is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from recap.core.files import atomic_path
from recap.core.log import log
from recap.profile_report.origins import Origin
from recap.profile_report.pictures import ShownFigure
from recap.profile_report.tables import ShownTable
from recap.reporting.content import NONE, Content
from recap.reporting.html import notes_below
from recap.reporting.latex import escape, superscript
from recap.reporting.paper_formats import paper_latex

_SECONDS = 300
_HEAD = r"""\documentclass[10pt,a4paper]{article}
\IfFileExists{cmap.sty}{\usepackage{cmap}}{}
\usepackage[T1]{fontenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{\IfFileExists{mathptmx.sty}{\usepackage{mathptmx}}{}}
\usepackage[utf8]{inputenc}
\usepackage{textcomp,booktabs,graphicx}
\usepackage[margin=20mm]{geometry}
\setlength{\parindent}{0pt}
\setlength{\parskip}{4pt}
\sloppy
\makeatletter
\newcommand\here{\par\medskip\def\@captype{table}\begin{minipage}{\linewidth}\centering}
\renewenvironment{table}[1][]{\here}{\end{minipage}\par\bigskip}
\renewenvironment{table*}[1][]{\here}{\end{minipage}\par\bigskip}
\makeatother
\begin{document}
"""


@dataclass(frozen=True)
class PdfReport:
    """What the PDF has: heading, how far the profile is, and the parts of the page in its order.

    `sheets` are the contact sheets, with the titles of their tables.
    """

    title: str
    state: str
    claims: Sequence[Content]
    tables: Sequence[ShownTable]
    studies: Sequence[Content]
    figures: Sequence[ShownFigure]
    sheets: Sequence[tuple[str, Path]]
    origins: Sequence[Origin]


def write_pdf(report: PdfReport, out: Path) -> bool:
    """Write the PDF and return whether there is one; without LaTeX, or if it fails, one line says so.

    A PDF of an earlier report is removed then.
    """
    program = shutil.which("pdflatex")
    reason = "pdflatex is not installed" if program is None else _compile(program, report, out)
    if reason:
        out.unlink(missing_ok=True)
        log.warning(f"{out}: not made, because {reason}; the page has everything")
    return not reason


def _compile(program: str, report: PdfReport, out: Path) -> str:
    """Write the PDF, or return why there is none."""
    with TemporaryDirectory(prefix="recap-pdf-") as folder:
        pictures = [*(figure.file for figure in report.figures), *(sheet for _, sheet in report.sheets)]
        for number, file in enumerate(pictures):
            shutil.copyfile(file, Path(folder) / f"picture{number}.png")
        (Path(folder) / "report.tex").write_text("\n".join(_lines(report)), encoding="utf-8")
        words = [program, "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
        fixed = {"SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1"}  # equal reports give equal bytes
        for _ in range(2):  # the second time with the pages of the contents
            try:
                done = subprocess.run(
                    words, cwd=folder, env={**os.environ, **fixed}, capture_output=True, timeout=_SECONDS, check=False
                )
            except subprocess.TimeoutExpired:
                return f"pdflatex did not finish in {_SECONDS} seconds"
            if done.returncode:
                output = done.stdout.decode("utf-8", "replace").splitlines()
                return f"pdflatex failed ({next((line for line in output if line.startswith('!')), 'no reason given')})"
        with atomic_path(out) as temporary:
            shutil.copyfile(Path(folder) / "report.pdf", temporary)
    return ""


def _lines(report: PdfReport) -> Iterator[str]:
    yield _HEAD
    yield rf"{{\LARGE\bfseries {escape(report.title)}}}\par\medskip {escape(report.state)}\par"
    yield r"\tableofcontents"
    for claims in report.claims:
        yield from _content(claims)
    yield rf"\clearpage\section{{Tables}}{_preliminary(report.tables)}"
    for table in report.tables:
        yield rf"\subsection{{{escape(table.paper.title)}}}"
        yield paper_latex(table.paper, table.name)
    for study in report.studies:
        yield from _content(study)
    for number, (title, caption) in enumerate(_pictures(report)):
        if number in (0, len(report.figures)):
            yield rf"\clearpage\section{{{'Samples' if number == len(report.figures) else 'Figures'}}}"
        yield rf"\subsection{{{escape(title)}}}"
        yield rf"\includegraphics[width=\linewidth,height=0.8\textheight,keepaspectratio]{{picture{number}.png}}"
        yield rf"\par {escape(caption)}"
    yield r"\section{Provenance}\raggedright"
    for origin in report.origins:
        value = escape(origin.value).replace(r"\textbar{}", r"\textbar{}\allowbreak ")
        yield rf"\textbf{{{escape(origin.name)}}}: {{\small {value}}}\par"
    yield r"\end{document}"


def _pictures(report: PdfReport) -> Iterator[tuple[str, str]]:
    yield from ((figure.title, figure.caption) for figure in report.figures)
    yield from ((title, "") for title, _ in report.sheets)


def _preliminary(tables: Sequence[ShownTable]) -> str:
    names = [f"{table.paper.title} ({table.why})" for table in tables if table.why]
    return f" {escape('Preliminary: ' + '; '.join(names) + '.')}" if names else ""


def _content(content: Content) -> Iterator[str]:
    """Yield a table of blocks as paragraphs, which may break over pages as a tabular cannot."""
    yield rf"\section{{{escape(content.title)}}}{{\small {escape(content.scale)}\par}}"
    for block in content.blocks:
        yield rf"\textbf{{{escape(block.label)}}}\par\nopagebreak"
        for line in block.lines:
            named = zip(content.columns, line.entries, strict=True)
            values = ", ".join(f"{column} {entry.text}" for column, entry in named if entry.text != NONE)
            line_text = f"{line.kind}: {values}" if values else line.kind
            yield rf"\hspace*{{1em}}{escape(line_text)}{superscript(line.mark)}\par"
    yield from (rf"{{\footnotesize {escape(note)}\par}}" for note in notes_below(content))
