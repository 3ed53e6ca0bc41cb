"""The sentences below a result table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recap.reporting.text import plain
from recap.settings.metrics import FEW_IMAGES, score_info, server_names
from recap.settings.tables import column_info, heading
from recap.statistics.comparison import MOST, POWER, SIGNIFICANT, least_difference

NO_RUNS = "One file has no training runs: p generalizes over images only, and no difference is marked."
_MAIN = "CIDEr"  # whose differences to quoted rows are listed; the CSV has those of all columns
SEEDS_LINE = "seeds for the printed difference"


def table_notes(statistics: Mapping[str, Any]) -> list[str]:
    """Return what the numbers of a table are, where printed ones are from, and what its tests and marks say."""
    seeds = statistics["seeds"]
    listed = ", ".join(str(seed) for seed in seeds)
    spread = f"one seed ({listed}), so no spread"
    if len(seeds) > 1:
        spread = f"mean ± standard deviation over seeds {listed}"
    elsewhere = all(column in server_names() for column in statistics["columns"])
    images = "" if elsewhere else f", {statistics['images']} images"
    notes = [f"Ours: percent (CIDEr of 1 is 100), {spread}{images}."]
    if "CIDEr" in statistics["columns"] and statistics["images"] < FEW_IMAGES:
        notes.append(
            "CIDEr weighs words by how many of the scored images have them; of fewer than "
            f"{FEW_IMAGES} images, its value means little."
        )
    notes += _on_server(statistics)
    notes += _on_outside(statistics)
    notes += _on_scales(statistics["columns"])
    notes += [*_on_printed(statistics), *_on_quoted(statistics)]
    notes += [f"Doubt about the printed table: {plain(text).rstrip('.')}." for text in statistics.get("doubts", [])]
    notes += [_on_p(statistics), _on_power(statistics)] if statistics["family"]["made"] else []
    return [*filter(None, notes), *_on_seeds_for_printed(statistics)]


def _on_server(statistics: Mapping[str, Any]) -> list[str]:
    """Return which scores COCO's server gave, on which images."""
    names = [column for column in statistics["columns"] if column in server_names()]
    if not names:
        return []
    return [
        "c5 and c40: scores of COCO's server on the 40,775 images of test2014, with 5 and with 40 references; a row "
        "with such scores says on which day the server gave them."
    ]


def from_outside(row: Mapping[str, Any]) -> str:
    """Return what a row is called that is not trained here."""
    return "released weights" if row.get("released") else "captions from outside"


def scored_here(row: Mapping[str, Any]) -> str:
    """Return what was done with a row that is not trained here."""
    return f"{from_outside(row).capitalize()}, scored here like ours"


def _on_outside(statistics: Mapping[str, Any]) -> list[str]:
    """Return which captions another program made, which weights others released, and what that means for tests."""
    names: dict[str, list[str]] = {}
    for row in statistics.get("outside", []):
        names.setdefault(scored_here(row), []).append(f"{plain(row['label'])} ({plain(row['captions'])})")
    return [f"{kind}: {', '.join(rows)}. {NO_RUNS}" for kind, rows in names.items()]


def _on_scales(columns: Sequence[str]) -> list[str]:
    """Return which columns are not in percent, and in which a lower value is better."""
    unscaled = [heading(column) for column in columns if column_info(column).scale != 100]
    lower = [column for column in columns if column_info(column).higher_is_better is False]
    notes = [f"Not in percent: {', '.join(unscaled)}."] if unscaled else []
    return notes + ([f"Lower is better: {', '.join(lower)}."] if lower else [])


def _on_printed(statistics: Mapping[str, Any]) -> list[str]:
    """Return what the printed numbers were measured on, and why there is no difference to them where there is none."""
    rows = [
        row for row in statistics["rows"] if any(cell["printed_percent"] is not None for cell in row["cells"].values())
    ]
    if not rows and not statistics["quoted"] and not statistics["not_run"]:
        return []
    if statistics["printed_on"] is None:
        if not rows:
            return ["Printed: quoted from the paper, measured there."]
        missing = "the table does not say that its data set and settings are the paper's (`printed_on`)"
        return [f"Printed: quoted from the paper; {missing}, so no difference to them is shown."]
    measured = f"Printed: quoted from the paper, measured on {statistics['printed_on']}"
    others = [plain(row["label"]) for row in rows if not row["as_printed"]]
    if not others:
        return [f"{measured}."]
    if len(others) == len(rows):
        return [f"{measured}; our data set or settings are others, so no difference to them is shown."]
    return [f"{measured}; no difference to them where our data set or settings are others: {', '.join(others)}."]


def _on_quoted(statistics: Mapping[str, Any]) -> list[str]:
    """Return by how much each row with the data and settings of the print differs from the rows that are quoted."""
    quoted = [row for row in statistics["quoted"] if _MAIN in row["printed"]]
    notes = []
    for row in statistics["rows"]:
        found = [(each["label"], difference_to_quoted(row, each, _MAIN)) for each in quoted if _MAIN in row["cells"]]
        listed = ", ".join(f"{plain(label)} {value:+.1f}" for label, value in found if value is not None)
        notes += [f"{_MAIN} of {plain(row['label'])} minus that of quoted rows: {listed}."] if listed else []
    return [*notes, "Quoted numbers are compared without a test."] if notes else []


def difference_to_quoted(row: Mapping[str, Any], quoted: Mapping[str, Any], column: str) -> float | None:
    """Return ours minus a quoted number, in its unit; None where ours has other data or settings, or no number."""
    mean = row["cells"][column]["mean"]
    if not row["as_printed"] or mean is None:
        return None
    return float(column_info(column).scale * mean - quoted["printed"][column])


def _on_p(statistics: Mapping[str, Any]) -> str:
    """Return the note that says what the p-values of a table test, and what its arrows mark."""
    family = statistics["family"]
    label = next(plain(row["label"]) for row in statistics["rows"] if row["id"] == statistics["baseline"])
    tests = f"p: two-sided against {label}, of each kind Holm-corrected over the comparisons of this table."
    bleu = ", BLEU as sentence-level BLEU" if any("BLEU" in column for column in statistics["columns"]) else ""
    images = f"Images: paired t over images{bleu}"
    more = "Wilcoxon tests, intervals and effect sizes are in the CSV."
    if family["units"] == ["images"]:
        return (
            f"{tests} {images}: with one seed, p generalizes over images only, not over training runs: other "
            f"runs may reverse a difference. {more}"
        )
    return (
        f"{tests} {images}, generalizes over images for these training runs. Runs: Welch over the runs, generalizes "
        "over training runs for these images. Both: the largest p of these two and of the joint test (min F'), which "
        f"takes images and runs as random. An arrow marks a difference with all three below {SIGNIFICANT:g}; bold: "
        f"better by this rule. {more}"
    )


def _on_power(statistics: Mapping[str, Any]) -> str:
    """Return the note that says how many seeds it takes until a difference is marked."""
    family, seeds = statistics["family"], len(statistics["seeds"])
    if seeds == 1:
        two, five = (f"{least_difference(count, comparisons=family['made']):.0f}" for count in (2, 5))
        return (
            "With one seed no difference is marked. In this table two seeds would only find a difference of about "
            f"{two} standard deviations between runs, five seeds one of {five} ({100 * POWER:.0f} % power, Welch)."
        )
    opening = "Two seeds mark only very large differences. " if seeds == 2 else ""
    if family["power"] is None:
        return opening.strip()
    metric, difference = family["power"]["metric"], family["power"]["difference"]
    info = score_info(metric)
    shown = f"{metric} {info.scale * difference:+.{info.digits}f} of {plain(family['power']['row'])}"
    needed = family["power"]["seeds"]
    if needed is None:
        return f"{opening}Even {MOST} seeds would not mark {shown}, with the spread over images and runs seen here."
    return (
        f"{opening}To mark {shown} would take about {needed} seeds ({100 * POWER:.0f} % power; a rough estimate from "
        "the spread over images and runs seen here)."
    )


def _on_seeds_for_printed(statistics: Mapping[str, Any]) -> list[str]:
    """Return the note on the seeds that a difference of the printed size takes, where a row says how many."""
    if not any(seeds_for_printed(cell) for row in statistics["rows"] for cell in row["cells"].values()):
        return []
    label = next(plain(row["label"]) for row in statistics["rows"] if row["id"] == statistics["baseline"])
    return [
        f"{SEEDS_LINE[0].upper()}{SEEDS_LINE[1:]}: so many would tell a difference from {label} of the printed size "
        f"({100 * POWER:.0f} % power; a rough estimate from the spread over images and runs seen here)."
    ]


def seeds_for_printed(cell: Mapping[str, Any]) -> str:
    """Return how many seeds would tell a difference of the printed size from the baseline, or nothing."""
    found = (cell["comparison"] or {}).get("seeds_for_printed") or {}
    return str(found["seeds"] or f">{MOST}") if found.get("difference") else ""
