"""Finished runs as text for a terminal: a list, one run, and two runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from recap.core.errors import RecapError, UnknownName, nearest
from recap.core.hashing import differences
from recap.settings.params import read_mapping
from recap.share.tracking_records import MAIN_METRIC, Record, read_runs
from recap.statistics.comparison import compare_paired
from recap.statistics.scores import not_comparable, read_image_scores, read_metrics
from recap.tables.text import p_text, plain

_HEADINGS = ["run", "data", "features", "parameters", "epochs", "hours", "val CIDEr-D", f"test {MAIN_METRIC}"]


@dataclass(frozen=True)
class FinishedRun:
    """A finished run, its profile's results, its folder, and that of its scores; None if it was not evaluated."""

    record: Record
    results: Path
    folder: Path
    scores: Path | None


def finished_runs(results: Path) -> list[FinishedRun]:
    """Return the finished runs of all profiles below a folder, under the labels of their tables."""
    runs = []
    for folder in sorted(path.parent for path in results.glob("*/runs")):
        for record in read_runs(folder.name, folder):
            path = record.key.partition("/")[2]
            scores = folder / "scores" / path if "signature" in record.tags else None
            runs.append(FinishedRun(record, folder, folder / "runs" / path, scores))
    return runs


def find_run(runs: Sequence[FinishedRun], name: str) -> FinishedRun:
    """Return the run whose key, folder or name is `name`, or the only one whose key or name has it as a part."""
    path = Path(name).absolute()
    matches = [run for run in runs if name in (run.record.key, run.record.name) or path == run.folder.absolute()]
    matches = matches or [run for run in runs if name in run.record.key or name in run.record.name]
    if len(matches) > 1:
        first, second = (run.record.key for run in matches[:2])
        raise UnknownName(f"{name!r} is in {len(matches)} runs, such as {first} and {second}")
    if not matches:
        names = {run.record.name for run in runs}
        raise UnknownName(f"there is no run {name!r}; {nearest(name, names) if names else 'there are none yet'}")
    return matches[0]


def run_table(runs: Sequence[FinishedRun], part: str) -> list[list[str]]:
    """Return a line of cells for each run with this part of its key or name, below the headings."""
    lines = [_HEADINGS]
    for record in (run.record for run in runs):
        if part not in record.key and part not in record.name:
            continue
        tags, numbers = record.tags, record.numbers
        lines.append(
            [
                plain(f"{tags['recap_profile']}: {record.name}"),
                f"{tags['dataset']}/{tags['subset']}",
                tags["features"],
                f"{numbers.get('parameters', 0) / 1e6:.2f} M",
                f"{numbers.get('epochs', 0):.0f}",
                f"{numbers.get('training_seconds', 0) / 3600:.2f}",
                f"{numbers['best_val_cider_d']:.1f}" if "best_val_cider_d" in numbers else "-",
                f"{record.scores[MAIN_METRIC]:.2f}" if MAIN_METRIC in record.scores else "-",
            ]
        )
    return lines


def describe_run(run: FinishedRun) -> list[str]:
    """Return what is known of a run: folder, scores, numbers of the training, settings."""
    record = run.record
    lines = [plain(record.name), f"folder: {run.folder}"]
    if run.scores:
        lines += [f"scores: {run.scores}", f"signature: {plain(record.tags['signature'])}"]
        lines += [f"  {name}: {value:.2f}" for name, value in sorted(record.scores.items())]
        reasons = [(name, why) for name, why in sorted(record.tags.items()) if name.startswith("not_run.")]
        lines += [f"  {name.removeprefix('not_run.')}: not run ({plain(why)})" for name, why in reasons]
    else:
        lines.append("scores: none, the run was not evaluated")
    lines += ["training:", *(f"  {name}: {value:g}" for name, value in sorted(record.numbers.items()))]
    return [*lines, "settings:", *(f"  {name}: {plain(value)}" for name, value in sorted(record.params.items()))]


def compare_runs(first: FinishedRun, second: FinishedRun) -> list[str]:
    """Return in what two runs differ: settings, and scores over the same images."""
    settings = [read_mapping(run.folder / "config.yaml").get("spec", {}) for run in (first, second)]
    lines = [f"{plain(first.record.name)} -> {plain(second.record.name)}", "settings:"]
    lines += [f"  {plain(line)}" for line in differences(*settings)] or ["  all are equal"]
    lines.append("scores:")
    if first.scores is None or second.scores is None:
        missing = first if first.scores is None else second
        return [*lines, f"  none, {plain(missing.record.name)} was not evaluated"]
    reason = not_comparable(first.record.tags["signature"], second.record.tags["signature"])
    if reason:
        return [*lines, f"  not comparable: {plain(reason)}"]
    one, two = (read_image_scores(folder, read_metrics(folder).split) for folder in (first.scores, second.scores))
    if one["image_id"].tolist() != two["image_id"].tolist():
        raise RecapError(f"{first.scores} and {second.scores} were scored on different images; evaluate both again")
    common = sorted(first.record.scores.keys() & second.record.scores.keys())
    for name in common:
        old, new = first.record.scores[name], second.record.scores[name]
        line = f"  {name}: {old:.2f} -> {new:.2f} ({new - old:+.2f})"
        if name in one and name in two:
            test = compare_paired(one[name].tolist(), two[name].tolist())
            line += f"; p over {test.images} images {p_text(test.p)}" if test.p is not None else f"; {test.reason}"
        lines.append(line)
    return lines if common else [*lines, "  they have no metric in common"]
