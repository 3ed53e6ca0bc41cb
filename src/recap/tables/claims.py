"""The verdicts on a paper's claims: a table with a line each, and every comparison behind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recap.core.files import csv_text, csv_value
from recap.core.log import log
from recap.statistics.claims import HOLDS, NOT_RUN, UNTOLD, ClaimVerdict, ComparisonVerdict
from recap.statistics.comparison import SIGNIFICANT
from recap.tables.formats import write_formats
from recap.tables.text import (
    NONE,
    Block,
    Cell,
    Line,
    TextTable,
    columns_of,
    footnote_marks,
    interval_text,
    number_text,
    p_text,
    plain,
)

PAPER = "paper"  # the scale at which nothing is replaced
_COLUMNS = ["Verdict", "Printed", "Ours", "p (Holm)"]
_COMPARED = [
    "Verdict",
    "Printed",
    "Ours",
    "95% interval",
    "p (Holm)",
    "Runs",
]
_OF_CSV = (
    "claim",
    "where",
    "sentence",
    "scale",
    "verdict",
    "why",
    "doubt",
    "table",
    "row",
    "against",
    "metric",
    "comparison",
    "printed",
    "difference",
    "low_uncorrected",
    "high_uncorrected",
    "p_holm",
    "runs",
    "our_tolerance",
    "reason",
)
_LEGEND = (
    "Printed and ours: row minus the other row, in points; of several comparisons, the one with "
    "the largest p."
)
_NOTES = [
    "A comparison holds, or does not, where the tests over images, over runs and over both are all "
    f"below {SIGNIFICANT:g}: the rule of the daggers in tables, Holm-corrected over "
    "the comparisons of the claim. A claim holds if all of its comparisons do, and "
    "does not hold if one does not.",
    "The interval is the widest of the three tests, for this comparison alone (uncorrected); p is "
    f"corrected over all comparisons of the claim, so it can be above {SIGNIFICANT:g} where the "
    "interval is without 0.",
    "±: points within which a printed score counts as reached, about 1 % of it. The tolerance is "
    "ours; no paper gives one.",
    "A printed number of others counts as exact. It is compared only with scores on its data by "
    "its settings, and only "
    "where the score of a corpus is the mean over its images.",
]


def verdict_text(verdict: ClaimVerdict, scale: str) -> str:
    """Return a verdict; scores of another scale than the
    paper's cannot tell whether a claim about its data holds."""
    if scale == PAPER or not verdict.comparisons or verdict.verdict == NOT_RUN:
        return verdict.verdict
    if verdict.verdict == UNTOLD:
        return f"{UNTOLD} here"
    shown = "it holds" if verdict.verdict == HOLDS else "it goes the other way"
    return f"{UNTOLD} here (at scale {scale} {shown})"


def claim_line(verdict: ClaimVerdict, scale: str) -> str:
    """Return a line about a claim: id, verdict, why, its weakest comparison, the sentence."""
    why, printed, tolerance = _why(verdict)
    shown = printed
    if weakest := _weakest(verdict):
        named = zip(_COMPARED[1:], _cells(weakest)[1:], strict=True)
        numbers = [
            f"{name[0].lower()}{name[1:]} {each.text}" for name, each in named if each.text != NONE
        ]
        shown = ", ".join(
            [f"{weakest.check.row} against {plain(weakest.against)}, {weakest.metric}", *numbers]
        )
    parts = [why, shown, tolerance, f'"{plain(verdict.claim.sentence)}" ({verdict.claim.where})']
    return f"{verdict.claim.id}: {verdict_text(verdict, scale)}: {'; '.join(filter(None, parts))}"


def _weakest(verdict: ClaimVerdict) -> ComparisonVerdict | None:
    """Return the comparison of the claim's verdict with the largest p, if any has numbers."""
    alike = [
        each
        for each in verdict.comparisons
        if each.verdict == verdict.verdict and each.difference is not None
    ]
    return max(alike, key=lambda each: 1.0 if each.p is None else each.p, default=None)


def _why(verdict: ClaimVerdict) -> tuple[str, str, str]:
    """Return why the verdict, the claim's numbers, and our tolerance for a printed score."""
    numbers = ", ".join(f"{number:,.7g}" for number in verdict.claim.printed)
    within = ", ".join(
        dict.fromkeys(f"{check.within:g}" for check in verdict.claim.checks if check.within)
    )
    tolerance = f"reached within {within} points (our tolerance)" if within else ""
    return verdict.why, f"printed {numbers}" if numbers else "", tolerance


def _cells(comparison: ComparisonVerdict) -> list[Cell]:
    """Return the cells of a comparison."""
    within = comparison.check.within
    texts = [
        comparison.verdict,
        _points(comparison.printed) if within is None else f"±{within:g}",
        _points(comparison.difference),
        interval_text(comparison.low, comparison.high, 1, signed=True),
        p_text(comparison.p),
        str(comparison.runs or NONE),
    ]
    return list(map(Cell, texts))


def _points(difference: float | None) -> str:
    return number_text(difference, 1, signed=True)


def claims_table(verdicts: Sequence[ClaimVerdict], scale: str) -> TextTable:
    """Return a line for each claim; those that were not run share one.

    The comparisons are the table's ``more``.
    """
    note = "" if scale == PAPER else f"Scale {scale}: not a reproduction of the paper's numbers."
    table = TextTable("Claims of the paper", note, columns_of(_COLUMNS), legend=[_LEGEND])
    more = TextTable("Comparisons", "", columns_of(_COMPARED), notes=_NOTES, first=table)
    heads = []
    waiting = []
    lines = []
    for verdict in verdicts:
        label = f"{verdict.claim.id} ({verdict.claim.where}): {plain(verdict.claim.sentence)}"
        head = _head(verdict, label, scale)
        heads.append(head)
        if verdict.verdict == NOT_RUN:
            waiting.append(verdict.claim.id)
        else:
            lines.append(head)
        compared = [each for each in verdict.comparisons if each.difference is not None]
        if compared or verdict.verdict == NOT_RUN:
            more.blocks.append(_block(label, head, compared))
    if waiting:
        lines.append(
            Line(f"{len(waiting)} more: {', '.join(waiting)}", [Cell(NOT_RUN), *[Cell()] * 3])
        )
    table.blocks = [Block("", lines)]
    table.footnotes = footnote_marks(heads)
    if more.blocks:
        table.more = more
    else:
        table.notes = _NOTES
    return table


def _head(verdict: ClaimVerdict, label: str, scale: str) -> Line:
    """Return the line of a claim: its verdict, and the numbers of its weakest comparison."""
    numbers = [Cell()] * 3
    if weakest := _weakest(verdict):
        _, printed, ours, _, p, _ = _cells(weakest)
        numbers = [printed, ours, p]
    doubt = verdict.claim.doubt
    why = "; ".join(filter(None, _why(verdict)))
    notes = (
        f"{plain(why)}." if why else "",
        f"Doubt about the sentence: {plain(doubt)}." if doubt else "",
    )
    return Line(label, [Cell(verdict_text(verdict, scale)), *numbers], notes)


def _block(label: str, head: Line, compared: Sequence[ComparisonVerdict]) -> Block:
    """Return the comparisons of a claim below its verdict."""
    block = Block(label, [Line(head.cells[0].text, [Cell()] * len(_COMPARED), head.notes)])
    for each in compared:
        named = f"{each.check.row} against {plain(each.against)}, {each.metric}, {each.table}"
        block.lines.append(Line(named, _cells(each)))
    return block


def claims_csv(verdicts: Sequence[ClaimVerdict], scale: str) -> str:
    """Return one line for each comparison, and for each claim without any."""
    lines: list[list[Any]] = [list(_OF_CSV)]
    for verdict in verdicts:
        claim = verdict.claim
        shown = verdict_text(verdict, scale)
        begin = [claim.id, claim.where, claim.sentence, scale, shown, verdict.why, claim.doubt]
        for each in verdict.comparisons:
            named = [each.table, each.check.row, each.against, each.metric, each.verdict]
            numbers = [each.printed, each.difference, each.low, each.high, each.p, each.runs]
            lines.append([*begin, *named, *numbers, each.check.within, each.why])
        if not verdict.comparisons:
            lines.append(begin + [""] * (len(_OF_CSV) - len(begin)))
    return csv_text(map(csv_value, line) for line in lines)


def write_claims(verdicts: Sequence[ClaimVerdict], scale: str, out: Path) -> list[Path]:
    """Write ``claims.{tex,csv,html,md}`` into a folder and return the paths."""
    paths = write_formats(
        out / "claims", claims_table(verdicts, scale), claims_csv(verdicts, scale), name="claims"
    )
    log.info(f"claims: {len(verdicts)} judged -> {out / 'claims.md'}")
    return paths
