"""The sentences of a result table: marks, origins of numbers, and what the tests say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from recap.core.hashing import parse_signature
from recap.settings.metrics import FEW_IMAGES, score_info, server_names
from recap.settings.tables import column_info, heading
from recap.statistics.comparison import MOST, POWER, SIGNIFICANT, least_difference
from recap.statistics.results import RowResult, TableResult
from recap.tables.frame import Frame, from_outside, minus_quoted
from recap.tables.text import ended, plain

NO_RUNS = (
    "One file has no training runs: p generalizes over images only, and no difference is marked."
)
SERVER = (
    "c5 and c40: scores of COCO's server on the 40,775 images of test2014, with 5 and with 40 "
    "references; a row with such scores says on which day the server gave them."
)
_MAIN = "CIDEr"  # whose differences to quoted rows are listed; the CSV has those of all columns
# Fields of a signature that only the full table shows.
_IN_FULL = {"images", "split", "len", "lp", "recap"}


def legend(frame: Frame, *, beside: bool) -> list[str]:
    """Return what parentheses, bold and daggers mean, for the head;
    ``beside``: printed numbers are in our cells."""
    statistics = frame.statistics
    cells = frame.cells
    sentences = []
    if beside and _printed([*statistics.rows, *statistics.outside]):
        scale = "the paper's own scale"
        if frame.table.short_scale:
            scale = "another scale, so they do not compare"
        sentences.append(f"In parentheses: what the paper prints; ours were made at {scale}.")
    if any(cell.best for cell in cells):
        sentences.append("Bold: best mean of the rows that were run.")
    against = baseline_label(statistics)
    if any(cell.mark for cell in cells):
        sentences.append(
            f"†: differs from {against} (p < {SIGNIFICANT:g} over images, runs and both; Holm)."
        )
    elif len(statistics.seeds) > 1 and statistics.family.made:
        sentences.append(f"No difference from {against} is significant over both images and runs.")
    lower = [
        heading(column)
        for column in statistics.columns
        if column_info(column).higher_is_better is False
    ]
    if lower:
        sentences.append(f"Lower is better: {', '.join(lower)}.")
    return sentences


def _printed(rows: Sequence[RowResult]) -> list[RowResult]:
    """Return the rows of which the paper prints numbers."""
    printed = []
    for row in rows:
        if any(cell.printed_percent is not None for cell in row.cells.values()):
            printed.append(row)
    return printed


def baseline_label(statistics: TableResult) -> str:
    """Return the label of the row that the others are compared with."""
    return next(plain(row.label) for row in statistics.rows if row.id == statistics.baseline)


def scored_here(row: RowResult) -> str:
    """Return what was done with a row that is not trained here."""
    return f"{from_outside(row).capitalize()}, scored here like ours"


def short_note(frame: Frame, names: Mapping[str, str]) -> str:
    """Return one line on units, seeds, images and how scores were made, and short names."""
    statistics = frame.statistics
    seeds = ", ".join(map(str, statistics.seeds))
    spread = f"One seed ({seeds}): no spread, and no difference is marked"
    if len(statistics.seeds) > 1:
        single = any(cell.result.n == 1 for cell in frame.cells)
        spread = (
            "Mean ± standard deviation over seeds "
            f"{seeds}{'; without ±: one run' if single else ''}"
        )
    unscaled = _unscaled(statistics)
    units = f"Percent, but for {', '.join(unscaled)}" if unscaled else "Percent"
    made = ", ".join(f"{key} {value}" for key, value in _agreed(statistics).items())
    parts = [spread, f"{statistics.images} test images", made]
    short = ", ".join(f"{letter} {name}" for letter, name in names.items())
    return f"{units}. {'; '.join(filter(None, parts))}." + (f" {short}." if short else "")


def _agreed(statistics: TableResult) -> dict[str, str]:
    """Return the fields that the signatures of all runs have alike, without those of `_IN_FULL`."""
    signatures: list[dict[str, str]] = []
    for row in statistics.rows:
        signatures += map(parse_signature, row.signatures.values())
    agreed = {}
    for key, value in (signatures[0] if signatures else {}).items():
        if key not in _IN_FULL and all(one.get(key) == value for one in signatures):
            agreed[key] = value
    return agreed


def full_notes(frame: Frame) -> Iterator[str]:
    """Yield what the numbers are, where printed ones are from, and what the tests say."""
    statistics = frame.statistics
    seeds = statistics.seeds
    columns = statistics.columns
    spread = f"one seed ({seeds[0]}), so no spread"
    if len(seeds) > 1:
        spread = f"mean ± standard deviation over seeds {', '.join(map(str, seeds))}"
    on_server = [column in server_names() for column in columns]
    images = "" if all(on_server) else f", {statistics.images} images"
    yield f"Ours: percent (CIDEr of 1 is 100), {spread}{images}."
    if "CIDEr" in columns and statistics.images < FEW_IMAGES:
        yield (
            "CIDEr weighs words by how many of the scored images have them; of fewer than "
            f"{FEW_IMAGES} images, its value means little."
        )
    if any(on_server):
        yield SERVER
    outside: dict[str, list[str]] = {}
    for row in statistics.outside:
        outside.setdefault(scored_here(row), []).append(
            f"{plain(row.label)} ({plain(row.captions or '')})"
        )
    yield from (f"{kind}: {', '.join(rows)}. {NO_RUNS}" for kind, rows in outside.items())
    if unscaled := _unscaled(statistics):
        yield f"Not in percent: {', '.join(unscaled)}."
    yield from _on_printed(statistics)
    yield from (f"Doubt about the printed table: {ended(text)}" for text in statistics.doubts)
    if statistics.family.made:
        yield _on_p(statistics)
        if power := _on_power(statistics):
            yield power


def _unscaled(statistics: TableResult) -> list[str]:
    return [heading(column) for column in statistics.columns if column_info(column).scale != 100]


def _on_printed(statistics: TableResult) -> Iterator[str]:
    """Yield the data of printed numbers, why no difference to them, and those to quoted rows."""
    rows = _printed(statistics.rows)
    if rows or statistics.quoted or statistics.not_run:
        yield f"Printed: quoted from the paper{_measured_on(statistics.printed_on, rows)}."
    compared = list(_minus_quoted(statistics)) if _MAIN in statistics.columns else []
    yield from compared
    if compared:
        yield "Quoted numbers are compared without a test."


def _measured_on(dataset: str | None, rows: Sequence[RowResult]) -> str:
    """Return on what printed numbers were measured, and why no difference to them is shown."""
    if dataset is None and rows:
        return (
            "; the table does not say that its data set and settings are the paper's "
            "(`printed_on`), so no difference to them is shown"
        )
    measured = f", measured on {dataset}" if dataset else ", measured there"
    others = [plain(row.label) for row in rows if not row.as_printed]
    if not others:
        return measured
    if len(others) == len(rows):
        why = "our data set or settings are others, so no difference to them is shown"
        return f"{measured}; {why}"
    return (
        f"{measured}; no difference to them where our data set or settings are others: "
        f"{', '.join(others)}"
    )


def _minus_quoted(statistics: TableResult) -> Iterator[str]:
    """Yield the differences of the main metric between each of our rows and the quoted ones."""
    for row in statistics.rows:
        differences = []
        for quoted in statistics.quoted:
            value = minus_quoted(row, _MAIN, quoted.printed.get(_MAIN))
            if value is not None:
                differences.append(f"{plain(quoted.label)} {value:+.1f}")
        if differences:
            yield (
                f"{_MAIN} of {plain(row.label)} minus that of quoted rows: "
                f"{', '.join(differences)}."
            )


def _on_p(statistics: TableResult) -> str:
    """Return what the p-values of a table test."""
    against = f"p: two-sided against {baseline_label(statistics)}"
    bleu = (
        ", BLEU as sentence-level BLEU"
        if any("BLEU" in column for column in statistics.columns)
        else ""
    )
    images = f"Images: paired t over images{bleu}"
    if statistics.family.units == ["images"]:
        units = (
            f"{images}: with one seed, p generalizes over images only, not over training runs: "
            "other runs may reverse a difference."
        )
    else:
        units = (
            f"{images}, generalizes over images for these training runs. Runs: Welch over the "
            "runs, generalizes over training runs for these images. Both: the largest p of these "
            "two and of the joint test (min F'), which takes images and runs as random."
        )
    more = "Wilcoxon tests, intervals and effect sizes are in the CSV."
    return (
        f"{against}, of each kind Holm-corrected over the comparisons of this table. {units} {more}"
    )


def _on_power(statistics: TableResult) -> str:
    """Return how many seeds it takes until a difference is marked.

    Nothing where that cannot be told.
    """
    family = statistics.family
    seeds = len(statistics.seeds)
    if seeds == 1:
        two = least_difference(2, comparisons=family.made)
        five = least_difference(5, comparisons=family.made)
        return (
            "With one seed no difference is marked. In this table two seeds would only find a "
            f"difference of about {two:.0f} standard deviations between runs, five seeds one of "
            f"{five:.0f} ({100 * POWER:.0f} % power, Welch)."
        )
    opening = "Two seeds mark only very large differences. " if seeds == 2 else ""
    power = family.power
    if power is None:
        return opening.strip()
    info = score_info(power.metric)
    difference = f"{info.scale * power.difference:+.{info.digits}f}"
    shown = f"{power.metric} {difference} of {plain(power.row)}"
    if power.seeds is None:
        return (
            f"{opening}Even {MOST} seeds would not mark {shown}, with the spread over images and "
            "runs seen here."
        )
    return (
        f"{opening}To mark {shown} would take about {power.seeds} seeds ({100 * POWER:.0f} % "
        "power; a rough estimate from the spread over images and runs seen here)."
    )
