"""What `recap plan` prints, about one screen:
missing files and tools, disk, steps, and hours if jobs run at once."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from configparser import ConfigParser
from dataclasses import dataclass
from graphlib import TopologicalSorter
from textwrap import shorten
from typing import Any, Literal

from recap.core.documents import read_json
from recap.core.errors import aligned, counted
from recap.plan.costs import ASSUMED_TFLOPS, ONE_CORE, Cost, Costs
from recap.plan.outside import How, Requirement, requirements
from recap.plan.paths import Paths
from recap.plan.profiles import PAPER
from recap.plan.run import Run, row_runs
from recap.plan.run_plan import RunPlan
from recap.settings.base import HUB
from recap.settings.params import file_and_part
from recap.settings.tables import STAGE_NAMES

Work = tuple[Literal["train", "evaluate", "submit"], Run]
Tables = dict[str, list[Work]]  # the name of a table's file -> what it adds to the tables before it
Waits = dict[Work, list[Work]]  # a job -> those that it waits for, all of them before it
Times = dict[str, dict[Work, float]]  # what jobs run on -> seconds of each

_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_NOTE = 110  # characters of a note that are shown
_DEAREST = 3
REPORTS = "reported_hours.json"  # below the parameter files
_PLACES = (1, 2, 4, 8)  # jobs at once, unless one number is asked for


@dataclass(frozen=True)
class Report:
    """What somebody reported of a training: a row of the file of reports."""

    table: str
    row: str
    stage: str
    epoch: str  #: what took how long
    gpu_hours: tuple[float, float]  #: the same, at least and at most
    source: str


@dataclass(frozen=True)
class Tool:
    """A tool that a plan needs, or that recap can use."""

    name: str
    version: str | None  #: None: it is not here
    without: str  #: what is lost without it
    get: str  #: the command or the page that gets it


def screen(
    plan: RunPlan, costs: Costs, tools: Sequence[Tool], *, tflops: float | None, places: int | None
) -> str:
    """Return all to know before the first job, on a GPU of `tflops`, with so many `places`."""
    missing, tables = requirements(Paths(plan)), table_work(plan)
    cost_of, after = jobs(plan, costs)
    trainings = [cost for (kind, _), cost in cost_of.items() if kind == "train"]
    at = f" at scale {plan.profile.scale}" if plan.profile.scale else ""
    lines = [
        f"{plan.profile.name}{at}, outside files in {plan.profile.inputs}/",
        *_missing(plan, missing),
        *_tools(tools),
        *_disk(missing, costs, trainings),
        *_work(plan, tables, cost_of),
        *_memory(trainings),
        *_hours(plan, tables, _times(cost_of, tflops), after, [places] if places else _PLACES),
        *reported(plan, costs, tflops or ASSUMED_TFLOPS),
    ]
    return "\n".join(lines)


def _missing(plan: RunPlan, missing: Sequence[Requirement]) -> Iterator[str]:
    if not missing:
        yield "Outside files: all are here."
        return
    counts, hint = Counter(each.how for each in missing), ""
    if counts["hand"] < len(missing) and not plan.profile.fetch:
        hint += "; the workflow makes all but those by hand with --config fetch=true"
    if counts["hand"]:
        hint += "; `recap data by-hand` prints the steps"
    words: dict[How, str] = {
        "fetch": "to fetch",
        "unpack": "to unpack",
        "hub": "from the hub",
        "hand": "by hand",
    }
    ways = ", ".join(f"{counts[how]} {word}" for how, word in words.items() if counts[how])
    yield f"Missing outside files: {len(missing)} ({ways}){hint}"
    inputs = f"{plan.profile.inputs}/"
    rows = [_file(each, inputs) for each in sorted(missing, key=lambda each: (each.how, each.path))]
    yield from _columns(list(dict.fromkeys(rows)))  # the files of one archive are one line


def _file(each: Requirement, inputs: str) -> tuple[str, ...]:
    entry = each.entry
    licence = _cut(entry.licence, 24) if entry else ""
    if each.archive and entry:
        return each.how, f"{entry.name}/", "-", "-", licence, f"from {each.archive.name}"
    size = _size(entry.bytes) if entry and entry.bytes else "?"
    digest = f"{entry.algorithm} {entry.hash[:8]}" if entry and entry.hash else "no hash"
    source = (
        entry.urls[0]
        if entry and entry.urls
        else (entry and entry.note) or f"named by {each.named_by}"
    )
    path = each.path.removeprefix(inputs).removeprefix(HUB)
    return (
        each.how,
        path,
        size,
        digest,
        licence,
        source if source.startswith("http") else _cut(source),
    )


def _tools(tools: Sequence[Tool]) -> Iterator[str]:
    missing = [[tool.name, tool.without, tool.get] for tool in tools if not tool.version]
    here = ", ".join(tool.name for tool in tools if tool.version)
    if not missing:
        yield f"Tools: {here}, all are here."
        return
    yield f"Missing tools{f' (here: {here})' if here else ''}:"
    yield from _columns(missing)


def _disk(missing: Sequence[Requirement], costs: Costs, trainings: Sequence[Cost]) -> Iterator[str]:
    whole = [each.entry for each in missing if each.how != "unpack"]
    published = [entry.bytes for entry in whole if entry and entry.bytes]
    unknown = len(whole) - len(published)
    archives = {each.archive.name for each in missing if each.archive}
    stores = sum(store.bytes or 0 for store in costs.stores)
    weights = sum(cost.weights for cost in trainings)
    state = max((cost.state for cost in trainings), default=0)
    yield "Disk:"
    rows = [
        [
            "downloads",
            _size(sum(published)),
            f"and {unknown} whose size is not published" if unknown else "",
        ]
    ]
    if archives:
        rows.append(["unpacked", "?", f"what is needed of {', '.join(sorted(archives))}"])
    rows.append(["feature stores", _size(stores, any(store.at_most for store in costs.stores)), ""])
    for store in costs.stores:
        images = counted(store.images, "image")
        if store.images < store.all_images:
            images = f"{store.images:,} of {store.all_images:,} images"
        size = "?" if store.bytes is None else _size(store.bytes, store.at_most)
        rows.append([f"  {store.dataset}/{store.features}", size, images])
    rows.append(
        [
            "weights",
            _size(weights),
            f"and up to {_size(state)} for the state of each training that is running",
        ]
    )
    parser = ConfigParser()
    parser.read([".dvc/config", ".dvc/config.local"])
    links = parser.get("cache", "type", fallback="copy").strip('"').split(",")[0].strip() != "copy"
    copy = (
        "links to these files"
        if links
        else "a second copy: set `dvc config cache.type` to link instead"
    )
    rows.append(["DVC's cache", _size(0 if links else stores + weights), copy])
    yield from _columns(rows)


def jobs(plan: RunPlan, costs: Costs) -> tuple[dict[Work, Cost], Waits]:
    """Return the cost of each job of a plan, and the jobs that it waits for."""
    cost_of, after = dict[Work, Cost](), Waits()
    for kind, run in work_of(plan, plan.scored()):
        trains = kind == "train"
        before = [plan.first_stage(run)] if trains else map(plan.weights, run.parts())
        after[kind, run] = [("train", each) for each in before if not (trains and each == run)]
        cost_of[kind, run] = costs.training(run) if trains else costs.evaluation(run)
    for each in plan.submissions():
        after["submit", each.run] = after["evaluate", each.run]
        cost_of["submit", each.run] = costs.evaluation(each.run, each)
    return cost_of, after


def work_of(plan: RunPlan, scored: Sequence[Run]) -> list[Work]:
    """Return what scored runs need, each once, in an order in which it can run."""
    stages = dict.fromkeys(
        stage for run in scored for part in run.parts() for stage in plan.stages(part)
    )
    return [*(("train", run) for run in stages), *(("evaluate", run) for run in scored)]


def table_work(plan: RunPlan) -> Tables:
    """Return the work of each table with all its parts; what two tables share is in the first."""
    tables, before = defaultdict[str, list[Work]](list), set[Work]()
    for name in plan.tables:
        sent: list[Work] = [("submit", each.run) for each in plan.submissions(name)]
        own = [
            work for work in (*work_of(plan, plan.table_runs(name)), *sent) if work not in before
        ]
        before.update(own)
        tables[file_and_part(plan.params, name)[0]] += own
    return tables


def _work(plan: RunPlan, tables: Tables, cost_of: Mapping[Work, Cost]) -> Iterator[str]:
    yield "Work (what tables share is in the first of them):"
    head = ["table", "rows", "xe", "scst", "steps", "evaluations", "10^15 operations"]
    rows_of = Counter[str]()
    for name, planned in plan.tables.items():
        rows_of[file_and_part(plan.params, name)[0]] += len(planned.rows)
    numbers: dict[str, list[float]] = {}
    for name, work in tables.items():
        kinds = Counter(run.stage if kind == "train" else "decode" for kind, run in work)
        costs = [cost_of[each] for each in work]
        steps, gflop = sum(cost.steps for cost in costs), sum(cost.gflop for cost in costs)
        numbers[name] = [rows_of[name], kinds["xe"], kinds["scst"], steps, kinds["decode"], gflop]
    numbers["all"] = [sum(column) for column in zip(*numbers.values(), strict=True)]
    rows = [
        [name, *(f"{n:,}" for n in counts), f"{gflop / 1e6:,.1f}"]
        for name, (*counts, gflop) in numbers.items()
    ]
    yield from _columns([head, *rows], numbers=range(1, len(head)))


def _memory(trainings: Sequence[Cost]) -> Iterator[str]:
    exact, memory = sum(cost.measured for cost in trainings), [cost.memory for cost in trainings]
    held = "weights, gradients, Adam's moments, and what a step keeps for its backward pass"
    yield f"A training holds {_size(min(memory))} to {_size(max(memory))}: {held}."
    scaled = (
        f"; {len(trainings) - exact} are scaled from others of their kind"
        if exact < len(trainings)
        else ""
    )
    yield (
        f"Steps of {exact} of {len(trainings)} trainings were measured at their very size{scaled}."
    )


def _times(cost_of: Mapping[Work, Cost], tflops: float | None) -> Times:
    """Return the seconds of all jobs by what they run on:
    a GPU, measured or assumed, then a core that was measured."""
    first = next(iter(cost_of.values()))
    measured = [
        name for name in first.seconds if all(name in cost.seconds for cost in cost_of.values())
    ]
    # of each the one that was measured last
    core = [name for name in measured if name.endswith(ONE_CORE)][:1]
    card = [name for name in measured if not name.endswith(ONE_CORE)][:1] if tflops is None else []
    times = {
        f"{name}, measured": {work: cost.seconds[name] for work, cost in cost_of.items()}
        for name in card + core
    }
    rate = tflops or ASSUMED_TFLOPS
    assumed = {work: cost.gflop / rate / 1e3 for work, cost in cost_of.items()}
    return (
        times
        if card
        else {f"GPUs of {rate:g} TFLOP/s, assumed, not measured (--tflops)": assumed, **times}
    )


def _hours(
    plan: RunPlan, tables: Tables, times: Times, after: Waits, numbers: Sequence[int]
) -> Iterator[str]:
    yield "Time of trainings and decoding, without features, metrics and early stops:"
    rows = [["", "a training", "all", *(f"--jobs {n}" for n in numbers), "longest chain"]]
    for name, seconds in times.items():
        each = [time for (kind, _), time in seconds.items() if kind == "train"]
        spans = [makespan(after, seconds, n) for n in numbers]
        total, longest = sum(seconds.values()), max(chains(after, seconds).values())
        rows.append(
            [
                name,
                f"{_time(min(each))} to {_time(max(each))}",
                *map(_time, (total, *spans, longest)),
            ]
        )
    yield from _columns(rows)
    gpu, seconds = next(iter(times.items()))
    of_tables = {name: sum(seconds[each] for each in work) for name, work in tables.items() if work}
    yield (
        f"Of these, by {gpu}: "
        f"{', '.join(f'{name} {_time(time)}' for name, time in of_tables.items())}"
    )
    # with all that a row needs, whoever needs it too
    of_rows = {
        f"{row.label} ({name})": sum(
            seconds[work] for work in work_of(plan, row_runs(row, plan.seeds[name]))
        )
        for name, table in plan.tables.items()
        for row in table.rows
    }
    dearest = sorted(of_rows.items(), key=lambda row: -row[1])[:_DEAREST]
    yield "Rows that cost most: " + "; ".join(f"{row} {_time(time)}" for row, time in dearest)
    if "assumed" in gpu:
        yield "`recap measure` measures a GPU in minutes, and `--measured FILE` counts with it."


def reported(plan: RunPlan, costs: Costs, tflops: float) -> Iterator[str]:
    """Yield reported trainings at the paper's scale, each with hours at so many TFLOP/s."""
    file = plan.params / REPORTS
    for each in (
        read_json(file, list[Report]) if file.is_file() and plan.profile.scale == PAPER else ()
    ):
        if each.table not in plan.tables:
            continue
        _, row = plan.row(f"{each.table}/{each.row}")
        run = row_runs(row, plan.seeds[each.table])[0].parts()[0]
        training = plan.first_stage(run) if each.stage == "xe" else run
        hours = costs.training(training).gflop / tflops / 3.6e6 / costs.stage(training).epochs
        times = " to ".join(dict.fromkeys(f"{number / hours:.0f}" for number in each.gpu_hours))
        ours = f"{times} times the {hours:.2f} GPU hours by {tflops:g} TFLOP/s"
        yield (
            f"Reported of {row.label}, {STAGE_NAMES[each.stage]}: an epoch took {each.epoch}, "
            f"{ours} ({each.source})"
        )


def chains(after: Mapping[Any, Sequence[Any]], seconds: Mapping[Any, float]) -> dict[Any, float]:
    """Return the seconds from each job's beginning to the end of the last that waits for it."""
    left = dict.fromkeys(after, 0.0)
    for name in reversed(after):  # each is after those that it waits for
        left[name] += seconds[name]
        for before in after[name]:
            left[before] = max(left[before], left[name])
    return left


def makespan(
    after: Mapping[Any, Sequence[Any]], seconds: Mapping[Any, float], places: int
) -> float:
    """Return the seconds of a list schedule of so many jobs at a time, longest chain first."""
    left, now = chains(after, seconds), 0.0
    order = {name: index for index, name in enumerate(after)}
    sorter = TopologicalSorter(after)
    sorter.prepare()
    ready: list[tuple[float, int, Any]] = []
    running: list[tuple[float, int, Any]] = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heapq.heappush(ready, (-left[name], order[name], name))
        while ready and len(running) < places:
            *_, name = heapq.heappop(ready)
            heapq.heappush(running, (now + seconds[name], order[name], name))
        now, _, ended = heapq.heappop(running)
        sorter.done(ended)
    return now


def _columns(rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> list[str]:
    return [f"  {line}" for line in aligned(rows, numbers)]


def _cut(text: str, width: int = _NOTE) -> str:
    return shorten(text, width, placeholder=" ...", break_on_hyphens=False)


def _size(size: float, at_most: bool = False) -> str:
    if not size:
        return "0"
    unit, name = next(
        ((unit, name) for name, unit in _UNITS if size >= unit), (_UNITS[0][1], _UNITS[0][0])
    )
    return f"{'at most ' if at_most else ''}{size / unit:.1f} {name}"


def _time(seconds: float) -> str:
    """Return seconds, minutes, hours or days, whichever is short."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return counted(round(seconds), "second")
