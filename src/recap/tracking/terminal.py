"""Finished runs as text for a terminal: a list, one run, and two runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recap.core.errors import RecapError, UnknownName, nearest
from recap.core.hashing import differences
from recap.plan.result_tables import read_tables
from recap.reporting.text import p_text, plain
from recap.settings.params import read_mapping
from recap.statistics.comparison import compare_paired
from recap.statistics.scores import Metrics, not_comparable, read_image_scores, read_metrics
from recap.tracking.records import MAIN_METRIC, Record, read_runs
from recap.tracking.tables import describe_settings

VALIDATION, PARAMETERS = "best_val_cider_d", "parameters"  # numbers of a training
NONE = "-"
_HEADINGS = ["run", "data", "features", "parameters", "epochs", "hours", "val CIDEr-D", f"test {MAIN_METRIC}"]


@dataclass(frozen=True)
class Found:
    """A finished run, its profile's results, its folder, and that of its scores; None if it was not evaluated."""

    record: Record
    results: Path
    folder: Path
    scores: Path | None


def finished_runs(results: Path) -> list[Found]:
    """Return the finished runs of all profiles below a folder, under the labels of their tables."""
    found = []
    for folder in sorted(path.parent for path in results.glob("*/runs")):
        tables = read_tables(folder)
        records = read_runs(profile=folder.name, results=folder, tables=tables, descriptions=describe_settings(tables))
        for record in records:
            path = record.key.partition("/")[2]
            scores = folder / "scores" / path
            found.append(
                Found(record, folder, folder / "runs" / path, scores if (scores / "metrics.json").is_file() else None)
            )
    return found


def chosen(runs: Sequence[Found], name: str) -> Found:
    """Return the run whose key, folder or name is `name`, or the only one whose key or name has it as a part."""
    path = Path(name).absolute()
    whole = [run for run in runs if name in (run.record.key, run.record.name) or path == run.folder.absolute()]
    part = whole or [run for run in runs if name in run.record.key or name in run.record.name]
    if len(part) == 1:
        return part[0]
    if part:
        raise UnknownName(f"{name!r} is in {len(part)} runs, such as {part[0].record.key} and {part[1].record.key}")
    names = {run.record.name for run in runs}
    raise UnknownName(f"there is no run {name!r}; {nearest(name, names) if names else 'there are none yet'}")


def listed(runs: Sequence[Found]) -> list[list[str]]:
    """Return a line of cells for each run, below the headings."""
    lines = []
    for run in runs:
        tags, numbers = run.record.tags, run.record.numbers
        score = run.record.scores.get(MAIN_METRIC)
        lines.append(
            [
                plain(f"{tags['recap_profile']}: {run.record.name}"),
                f"{tags['dataset']}/{tags['subset']}",
                tags["features"],
                f"{numbers.get(PARAMETERS, 0) / 1e6:.2f} M",
                f"{numbers.get('epochs', 0):.0f}",
                f"{numbers.get('training_seconds', 0) / 3600:.2f}",
                f"{numbers[VALIDATION]:.3f}" if VALIDATION in numbers else NONE,
                NONE if score is None else f"{score:.2f}",
            ]
        )
    return [_HEADINGS, *lines]


def shown(run: Found) -> list[str]:
    """Return what is known of a run: folder, scores, numbers of the training, settings."""
    record = run.record
    lines = [plain(record.name), f"folder: {run.folder}"]
    if run.scores:
        lines += [f"scores: {run.scores}", f"signature: {plain(record.tags['signature'])}"]
        lines += [f"  {name}: {value:.2f}" for name, value in sorted(record.scores.items())]
        lines += [
            f"  {name.removeprefix('not_run.')}: not run ({plain(why)})"
            for name, why in sorted(record.tags.items())
            if name.startswith("not_run.")
        ]
    else:
        lines.append("scores: none, the run was not evaluated")
    lines += ["training:", *(f"  {name}: {value:g}" for name, value in sorted(record.numbers.items()))]
    return [*lines, "settings:", *(f"  {name}: {plain(value)}" for name, value in sorted(record.params.items()))]


def compared(first: Found, second: Found) -> list[str]:
    """Return in what two runs differ: settings, and scores over the same images."""
    settings = [read_mapping(run.folder / "config.yaml").get("spec", {}) for run in (first, second)]
    lines = [f"{plain(first.record.name)} -> {plain(second.record.name)}", "settings:"]
    lines += [f"  {plain(line)}" for line in differences(*settings)] or ["  all are equal"]
    lines.append("scores:")
    if first.scores is None or second.scores is None:
        missing = first if first.scores is None else second
        return [*lines, f"  none, {plain(missing.record.name)} was not evaluated"]
    metrics = [read_metrics(folder) for folder in (first.scores, second.scores)]
    reason = not_comparable(*(each.signature for each in metrics))
    if reason:
        return [*lines, f"  not comparable: {plain(reason)}"]
    return [*lines, *_score_lines(first, second, metrics)]


def _score_lines(first: Found, second: Found, metrics: Sequence[Metrics]) -> list[str]:
    """Return a line for each metric that both have: both scores, the difference, its interval and p over images."""
    assert first.scores and second.scores
    one, two = (
        read_image_scores(folder, each.split)
        for folder, each in zip((first.scores, second.scores), metrics, strict=True)
    )
    if one["image_id"].tolist() != two["image_id"].tolist():
        raise RecapError(f"{first.scores} and {second.scores} were scored on different images; evaluate both again")
    lines = []
    for name, ours in sorted(first.record.scores.items()):
        theirs = second.record.scores.get(name)
        if theirs is None:
            continue
        line = f"  {name}: {ours:.2f} -> {theirs:.2f} ({theirs - ours:+.2f})"
        if name in one and name in two:
            test = compare_paired(one[name].tolist(), two[name].tolist())
            line += f"; p over {test.images} images {p_text(test.p)}" if test.p is not None else f"; {test.reason}"
        lines.append(line)
    return lines or ["  they have no metric in common"]
