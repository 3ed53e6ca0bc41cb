"""The verdicts on a paper's claims as lines of text and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recap.core.files import cell, csv_text, no_formula
from recap.core.log import log
from recap.reporting.content import NONE, Block, Content, Entry, Line
from recap.reporting.tables import write_formats
from recap.reporting.text import p_text, plain
from recap.statistics.claims import FAILS, HOLDS, UNTOLD, Judged, Verdict
from recap.statistics.comparison import MOST, POWER, SIGNIFICANT

PAPER = "paper"  # the scale at which nothing is replaced
_COLUMNS = ["Printed", "Ours", "95 % interval (uncorrected)", "p (Holm)", "Runs", "Power", "Seeds needed"]
_RECORD = {  # column of the CSV -> attribute of a comparison; `seeds` comes after them
    "printed": "printed",
    "difference": "difference",
    "low_uncorrected": "low",
    "high_uncorrected": "high",
    "p_holm": "p",
    "runs": "runs",
    "power": "power",
}
_NOTES = [
    "A comparison holds, or does not, where the tests over images, over runs and over both are all below "
    f"{SIGNIFICANT:g}: the rule of the marks in tables, Holm-corrected over the comparisons of the claim. A claim "
    "holds if all of its comparisons do, and does not hold if one does not.",
    "Printed and ours: row minus the other row, in points. The interval is the widest of the three tests, for this "
    "comparison alone; p is corrected over all comparisons of the claim, so it can be above "
    f"{SIGNIFICANT:g} where the interval is without 0.",
    "±: points within which a printed score counts as reached, about 1 % of it. The tolerance is ours; no paper gives "
    "one.",
    "A printed number of others counts as exact. It is compared only with scores on its data by its settings, and only "
    "where the score of a corpus is the mean over its images.",
    f"Power: chance that so many runs show a difference of the printed size; seeds needed: for a power of "
    f"{100 * POWER:.0f} %, a rough estimate from the spread seen here.",
]


def verdict_text(verdict: Verdict, scale: str) -> str:
    """Return a verdict with the scale it holds for; what no training decides holds at every scale."""
    measured = verdict.judged and verdict.verdict in (HOLDS, FAILS, UNTOLD)
    return f"{verdict.verdict} at scale {scale}" if measured and scale != PAPER else verdict.verdict


def claim_line(verdict: Verdict, scale: str) -> str:
    """Return one line about a claim: id, verdict, why, numbers of its weakest comparison, and the sentence."""
    alike = [each for each in verdict.judged if each.verdict == verdict.verdict and each.difference is not None]
    shown = _numbers(max(alike, key=lambda each: 1.0 if each.p is None else each.p)) if alike else _printed(verdict)
    parts = [verdict.why, shown, _tolerance(verdict), f'"{plain(verdict.claim.sentence)}" ({verdict.claim.where})']
    return f"{verdict.claim.id}: {verdict_text(verdict, scale)}: {'; '.join(filter(None, parts))}"


def _printed(verdict: Verdict) -> str:
    return f"printed {', '.join(f'{number:,.7g}' for number in verdict.claim.printed)}" if verdict.claim.printed else ""


def _tolerance(verdict: Verdict) -> str:
    """Return within how many points a printed score counts as reached, which no paper says."""
    within = dict.fromkeys(f"{check.within:g}" for check in verdict.claim.checks if check.within)
    return f"reached within {', '.join(within)} points (our tolerance)" if within else ""


def _numbers(judged: Judged) -> str:
    parts = [f"{judged.check.row} against {plain(judged.against)}, {judged.metric}"]
    entries = [(name, entry.text) for name, entry in zip(_COLUMNS, _entries(judged), strict=True)]
    return ", ".join([*parts, *(f"{name[0].lower()}{name[1:]} {text}" for name, text in entries if text != NONE)])


def _entries(judged: Judged) -> list[Entry]:
    low, high = judged.low, judged.high
    within = judged.check.within
    texts = [
        _signed(judged.printed) if within is None else f"±{within:g}",
        _signed(judged.difference),
        NONE if low is None else f"{_signed(low)} to {_signed(high)}",
        NONE if judged.p is None else p_text(judged.p),
        f"{judged.runs}" if judged.runs else NONE,
        NONE if judged.power is None else f"{100 * judged.power:.0f} %",
        NONE if judged.seeds is None else str(judged.seeds or f">{MOST}"),
    ]
    return [Entry(text) for text in texts]


def _signed(value: float | None) -> str:
    return NONE if value is None else f"{value:+.1f}"


def claims_content(verdicts: Sequence[Verdict], scale: str) -> Content:
    """Return the verdicts as a table: a block for each claim, with a line for each of its comparisons."""
    scale_note = "" if scale == PAPER else f"Scale {scale}: not a reproduction of the paper's numbers."
    content = Content("Claims of the paper", scale_note, _COLUMNS, notes=list(_NOTES))
    for verdict in verdicts:
        claim = verdict.claim
        why = "; ".join(filter(None, [verdict.why, _printed(verdict), _tolerance(verdict)]))
        mark = content.footnotes.mark(f"{plain(why)}.") if why else ""
        lines = [Line(verdict_text(verdict, scale), [Entry(NONE)] * len(_COLUMNS), mark)]
        for each in verdict.judged:
            if each.difference is not None:
                kind = f"{each.check.row} against {plain(each.against)}, {each.metric}, {each.table}: {each.verdict}"
                lines.append(Line(kind, _entries(each)))
        doubt = content.footnotes.mark(f"Doubt about the sentence: {plain(claim.doubt)}.") if claim.doubt else ""
        label = f"{claim.id} ({claim.where}): {plain(claim.sentence)}"
        content.blocks.append(Block(f"{label} [{doubt}]" if doubt else label, lines))
    return content


def claims_csv(verdicts: Sequence[Verdict], scale: str) -> str:
    """Return one line for each comparison, and for each claim without any."""
    head = ["claim", "where", "sentence", "scale", "verdict", "why", "doubt", "table", "row", "against", "metric"]
    lines = [[*head, "comparison", *_RECORD, "seeds", "our_tolerance", "reason"]]
    for verdict in verdicts:
        claim = verdict.claim
        begin = [claim.id, claim.where, claim.sentence, scale, verdict.verdict, verdict.why, claim.doubt]
        for each in verdict.judged:
            named = [each.table, each.check.row, each.against, each.metric, each.verdict]
            values = [getattr(each, key) for key in _RECORD.values()]
            values += [f"more than {MOST}" if each.seeds == 0 else each.seeds, each.check.within]
            numbers = [cell(value) for value in values]
            lines.append([no_formula(text) for text in [*begin, *named]] + [*numbers, no_formula(each.why)])
        if not verdict.judged:
            lines.append([no_formula(text) for text in begin] + [""] * (len(lines[0]) - len(begin)))
    return csv_text(lines)


def write_claims(verdicts: Sequence[Verdict], scale: str, out: Path) -> list[Path]:
    """Write ``claims.{tex,csv,html,md}`` into a folder and return the paths."""
    paths = write_formats(out / "claims", claims_content(verdicts, scale), claims_csv(verdicts, scale), name="claims")
    log.info(f"claims: {len(verdicts)} judged -> {out / 'claims.md'}")
    return paths
