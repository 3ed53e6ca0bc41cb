"""What became of every report and picture of IU X-ray."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from recap.core.files import write_text
from recap.data.corpus.corpus import SPLITS, VIEWS
from recap.data.datasets.iu_xray.reports import Report
from recap.data.datasets.iu_xray.split import Study


def left_out(
    reports: Mapping[str, Report], studies: Sequence[Study], *, lacking: Mapping[str, list[str]], views: int
) -> dict[str, tuple[str, str]]:
    """Return of every report that is not used, by uid, the reason and what it lacks.

    Args:
        reports: all reports.
        studies: those in use.
        lacking: missing pictures of studies that were left out for them.
        views: pictures that a study needs.
    """
    used = {study.uid for study in studies}
    return {uid: _reason(report, lacking.get(uid, []), views) for uid, report in reports.items() if uid not in used}


def _reason(report: Report, lacking: list[str], views: int) -> tuple[str, str]:
    if lacking:
        return "a picture is missing from the images", ", ".join(lacking)
    if not report.findings:
        return "no findings", ""
    if len(report.pictures) < views:
        return f"findings, but fewer than {views} pictures", ""
    return "not in the annotation", ""


def count_lines(
    reports: Mapping[str, Report],
    studies: Sequence[Study],
    *,
    named: Sequence[Study],
    reasons: Mapping[str, tuple[str, str]],
    views: Mapping[str, str],
) -> list[str]:
    """Return sentences that lead from all reports and pictures, and the studies named, to the studies in use."""
    referred = sum(len(report.pictures) for report in reports.values())
    lines = [f"{len(reports):,} reports refer to {referred:,} pictures"]
    if named:
        lines.append(f"the annotation names {len(named):,} studies ({_by_split(named)})")
    for reason, count in Counter(reason for reason, _ in reasons.values()).most_common():
        lines.append(f"{count:,} reports left out: {reason}")
    lines += [f"{uid} left out, no picture {lacks}" for uid, (_, lacks) in reasons.items() if lacks]
    used = sum(len(study.pictures) for study in studies)
    lines.append(f"{len(studies):,} studies in use ({_by_split(studies)}), with {used:,} of the {referred:,} pictures")
    if views:
        pairs = Counter(" and ".join(_kinds(study.pictures, views)) for study in studies)
        lines.append("views: " + ", ".join(f"{count:,} {pair}" for pair, count in pairs.most_common()))
    return lines


def write_studies(
    path: Path,
    reports: Mapping[str, Report],
    studies: Sequence[Study],
    *,
    reasons: Mapping[str, tuple[str, str]],
    views: Mapping[str, str],
) -> None:
    """Write a table with one line per report: its split or why it is left out, its pictures, frontal or lateral."""
    used = {study.uid: study for study in studies}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["report", "split", "left_out", "pictures", "views"])
    for uid, report in reports.items():
        pictures = used[uid].pictures if uid in used else report.pictures
        split, why = (used[uid].split, "") if uid in used else ("", ": ".join(filter(None, reasons[uid])))
        writer.writerow([uid, split, why, VIEWS.join(pictures), VIEWS.join(_kinds(pictures, views))])
    write_text(path, text.getvalue())


def _by_split(studies: Sequence[Study]) -> str:
    splits = Counter(study.split for study in studies)
    return ", ".join(f"{splits[split]:,} {split}" for split in SPLITS)


def _kinds(pictures: Sequence[str], views: Mapping[str, str]) -> list[str]:
    return [views.get(picture, "unknown") for picture in pictures]
