"""The cost of a plan as text: about one screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import shorten

from recap.core.errors import counted
from recap.cost.report import Report
from recap.plan.cost import state_bytes
from recap.plan.outside import Requirement
from recap.plan.schedule import chains, makespan
from recap.settings.base import HUB

_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_NOTE = 110  # characters of a note that are shown
_PLACES = (1, 2, 4, 8)  # jobs at once, unless one number is asked for


def screen(report: Report, *, places: int | None) -> str:
    """Return all that a person wants to know before the first job.

    Args:
        report: what the plan needs and costs.
        places: jobs that run at once; None: several numbers.
    """
    profile = report.plan.profile
    at = f" at scale {profile.scale}" if profile.scale else ""
    parts = (_missing(report), _tools(report), _disk(report), _work(report), _hours(report, places))
    title = f"{profile.name}{at}, outside files in {profile.inputs}/"
    return "\n".join([title, *(line for part in parts for line in part)])


def _missing(report: Report) -> Iterator[str]:
    missing = report.missing
    if not missing:
        yield "Outside files: all are here."
        return
    gettable = not report.plan.profile.fetch and any(each.how != "hand" for each in missing)
    hints = ["; the workflow makes all but those by hand with --config fetch=true"] if gettable else []
    hints += ["; `recap data by-hand` prints the steps"] if any(each.how == "hand" for each in missing) else []
    hint = "".join(hints)
    yield f"Missing outside files: {len(missing)} ({_ways(missing)}){hint}"
    inputs = f"{report.plan.profile.inputs}/"
    rows = [_file(each, inputs) for each in sorted(missing, key=lambda each: (each.how, each.path))]
    yield from _columns(list(dict.fromkeys(rows)))  # the files of one archive are one line


def _ways(missing: Sequence[Requirement]) -> str:
    meant = {"fetch": "to fetch", "unpack": "to unpack", "hub": "from the hub", "hand": "by hand"}
    counts = {word: sum(each.how == how for each in missing) for how, word in meant.items()}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def _file(each: Requirement, inputs: str) -> tuple[str, ...]:
    entry = each.entry
    size = _size(entry.bytes) if entry and entry.bytes else "-" if each.how == "unpack" else "?"
    digest = f"{entry.algorithm} {entry.hash[:8]}" if entry and entry.hash else "no hash"
    if each.archive:
        source = f"from {each.archive.name}"
    elif entry and entry.urls:
        source = entry.urls[0]
    else:
        source = entry.note if entry and entry.note else f"named by {each.named_by}"
    licence = _cut(entry.licence, 24) if entry else ""
    path = each.path.removeprefix(inputs).removeprefix(HUB)
    if each.archive and entry:
        path, digest = f"{entry.name}/", "-"
    return each.how, path, size, digest, licence, source if source.startswith("http") else _cut(source)


def _tools(report: Report) -> Iterator[str]:
    lacking = [tool for tool in report.tools if not tool.found]
    here = ", ".join(tool.name for tool in report.tools if tool.found)
    if lacking:
        yield f"Missing tools{f' (here: {here})' if here else ''}:"
        rows = [[tool.name, tool.without, tool.get] for tool in lacking]
        yield from _columns(rows)
    else:
        yield f"Tools: {here}, all are here."


def _disk(report: Report) -> Iterator[str]:
    known = [each.entry.bytes for each in report.missing if each.how != "unpack" and each.entry and each.entry.bytes]
    unknown = sum(each.how != "unpack" for each in report.missing) - len(known)
    archives = {each.archive.name for each in report.missing if each.archive}
    stores = sum(store.bytes or 0 for store in report.stores)
    weights = sum(cost.weights for cost in report.trainings)
    state = max(map(state_bytes, report.trainings), default=0)
    yield "Disk:"
    rows = [["downloads", _size(sum(known)), f"and {unknown} whose size is not published" if unknown else ""]]
    if archives:
        rows.append(["unpacked", "?", f"what is needed of {', '.join(sorted(archives))}"])
    rows.append(["feature stores", _size(stores, any(store.at_most for store in report.stores)), ""])
    for store in report.stores:
        some = f"{store.images:,} of {store.all_images:,} images" if store.images < store.all_images else ""
        some = some or counted(store.images, "image")
        size = "?" if store.bytes is None else _size(store.bytes, store.at_most)
        rows.append([f"  {store.dataset}/{store.features}", size, some])
    rows.append(["weights", _size(weights), f"and up to {_size(state)} for the state of each training that is running"])
    copy = "links to these files" if report.links else "a second copy: set `dvc config cache.type` to link instead"
    rows.append(["DVC's cache", _size(0 if report.links else stores + weights), copy])
    yield from _columns(rows)


def _work(report: Report) -> Iterator[str]:
    yield "Work (what tables share is in the first of them):"
    head = ["table", "rows", "xe", "scst", "steps", "evaluations", "10^15 operations"]
    rows = [
        [table.table, *map(_number, (table.rows, *table.trainings.values(), table.steps, table.evaluations))]
        + [f"{table.gflop / 1e6:,.1f}"]
        for table in report.tables
    ]
    total = [sum(table.rows for table in report.tables)]
    total += [sum(table.trainings[stage] for table in report.tables) for stage in ("xe", "scst")]
    total += [sum(table.steps for table in report.tables), sum(table.evaluations for table in report.tables)]
    operations = sum(table.gflop for table in report.tables) / 1e6
    everything = ["all", *map(_number, total), f"{operations:,.1f}"]
    yield from _columns([head, *rows, everything], numbers=range(1, len(head)))


def _hours(report: Report, places: int | None) -> Iterator[str]:
    costs = report.trainings
    exact = sum(cost.measured for cost in costs)
    memory = [cost.memory for cost in costs]
    held = "weights, gradients, Adam's moments, and what a step keeps for its backward pass"
    yield f"A training holds {_size(min(memory))} to {_size(max(memory))}: {held}."
    scaled = f"; {len(costs) - exact} are scaled from others of their kind" if exact < len(costs) else ""
    yield f"Steps of {exact} of {len(costs)} trainings were measured at their very size{scaled}."
    yield "Time of trainings and decoding, without features, metrics and early stops:"
    head = ["", "a training", "all"]
    numbers = [places] if places else list(_PLACES)
    rows = [[*head, *(f"--jobs {n}" for n in numbers), "longest chain"]]
    for name, jobs in report.schedules.items():
        measured = "measured" if name == report.machine else "assumed, not measured (--tflops)"
        each = [job.seconds for (kind, _), job in jobs.items() if kind == "train"]
        spans = [makespan(jobs, n) for n in numbers]
        total, longest = sum(job.seconds for job in jobs.values()), max(chains(jobs).values())
        shown = [f"{_time(min(each))} to {_time(max(each))}", *map(_time, (total, *spans, longest))]
        rows.append([f"{name}, {measured}", *shown])
    yield from _columns(rows)
    if report.machine is None:
        yield "No machine was measured for these kinds of models: `recap plan ... --time` times some steps here."


def _columns(rows: Sequence[Sequence[str]], numbers: Iterable[int] = ()) -> Iterator[str]:
    """Yield rows with aligned columns, those of numbers to the right."""
    right = set(numbers)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = enumerate(zip(row, widths, strict=True))
        yield "  " + "  ".join(f"{text:{'>' if n in right else '<'}{width}}" for n, (text, width) in cells).rstrip()


def _cut(text: str, width: int = _NOTE) -> str:
    return shorten(text, width, placeholder=" ...", break_on_hyphens=False)


def _size(size: float, at_most: bool = False) -> str:
    if not size:
        return "0"
    unit, name = next(((unit, name) for name, unit in _UNITS if size >= unit), (_UNITS[0][1], _UNITS[0][0]))
    return f"{'at most ' if at_most else ''}{size / unit:.1f} {name}"


def _number(number: int) -> str:
    return f"{number:,}"


def _time(seconds: float) -> str:
    """Return seconds, minutes, hours or days, whichever is short."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return counted(round(seconds), "second")
