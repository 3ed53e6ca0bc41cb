"""What `recap plan` prints: missing files and tools, disk, trainings and their hours."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten

from recap.core.documents import read_json
from recap.core.errors import aligned, counted
from recap.plan.costs import Cost, Costs, StoreSize
from recap.plan.jobs import plan_jobs
from recap.plan.outside import How, MissingFile, missing_files
from recap.plan.plan import Plan
from recap.plan.profiles import PAPER
from recap.plan.run import Run
from recap.plan.stores import used_stores
from recap.settings.base import HUB
from recap.settings.params import file_and_part
from recap.settings.tables import STAGE_NAMES

CostOf = Mapping[Run, Cost | None]  # of each training; None: its steps were not measured

_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_NOTE = 110  # characters of a note that are shown
REPORTS = "reported_hours.json"  # below the parameter files


@dataclass(frozen=True)
class ReportedHours:
    """What somebody reported of a training: a row of the file of reports."""

    table: str
    row: str
    stage: str
    epoch: str  #: what took how long
    gpu_hours: tuple[float, float]  #: the same, at least and at most
    source: str


@dataclass(frozen=True)
class SystemTool:
    """A tool that a plan needs, or that recap can use."""

    name: str
    version: str | None  #: None: it is not here
    without: str  #: what is lost without it
    get: str  #: the command or the page that gets it


def plan_report(plan: Plan, costs: Costs, tools: Sequence[SystemTool], measure: str) -> str:
    """Return all that a person wants to know before the first job; `measure` is the command that
    measures its steps."""
    missing = missing_files(plan, plan_jobs(plan))
    cost_of = {run: costs.training(run) for run in plan.trained}
    at = f" at scale {plan.profile.scale}" if plan.profile.scale else ""
    lines = [
        f"{plan.profile.name}{at}, outside files in {plan.profile.inputs}/",
        *_missing(plan, missing),
        _tools(tools),
        _disk(plan, missing, costs, cost_of),
        *_hours(plan, costs, cost_of, measure),
        *reported(plan, costs),
    ]
    return "\n".join(lines)


def _missing(plan: Plan, missing: Sequence[MissingFile]) -> Iterator[str]:
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


def _file(each: MissingFile, inputs: str) -> tuple[str, ...]:
    entry = each.entry
    licence = _cut(entry.licence, 24) if entry else ""
    if each.archive and entry:
        return each.how, f"{entry.name}/", "-", "-", licence, f"from {each.archive.name}"
    size, digest, source = "?", "no hash", f"named by {each.named_by}"
    if entry:
        size = _size(entry.bytes) if entry.bytes else size
        digest = f"{entry.algorithm} {entry.hash[:8]}" if entry.hash else digest
        source = entry.urls[0] if entry.urls else entry.note or source
    if not source.startswith("http"):
        source = _cut(source)
    path = each.path.removeprefix(inputs).removeprefix(HUB)
    return each.how, path, size, digest, licence, source


def _tools(tools: Sequence[SystemTool]) -> str:
    missing = ", ".join(tool.name for tool in tools if not tool.version)
    if not missing:
        return "Tools: all are here."
    return f"Missing tools: {missing}; `recap doctor` says what each is for and how to get it."


def _disk(plan: Plan, missing: Sequence[MissingFile], costs: Costs, cost_of: CostOf) -> str:
    """Return one line: what is fetched and unpacked, feature stores, weights."""
    whole = [each.entry for each in missing if each.how != "unpack"]
    published = [entry.bytes for entry in whole if entry and entry.bytes]
    parts = [f"{_size(sum(published))} to bring here"]
    if len(published) < len(whole):
        unknown = counted(len(whole) - len(published), "file")
        parts.append(f"{unknown} whose size is not published")
    if any(each.archive for each in missing):
        parts.append("what is unpacked of them")
    parts += _stores([costs.store(store) for store in used_stores(plan)])
    weights = [cost.weights for cost in cost_of.values() if cost]
    parts.append(f"{_size(sum(weights))} of weights")
    return f"Disk: {', '.join(parts)}."


def _stores(stores: Sequence[StoreSize]) -> list[str]:
    """Return the size of feature stores, and how many have none."""
    size = sum(store.bytes or 0 for store in stores)
    parts = [f"{_size(size, any(store.at_most for store in stores))} of feature stores"]
    if unsized := sum(store.bytes is None for store in stores):
        parts.append(f"{counted(unsized, 'store')} of unknown size")
    return parts


def table_trainings(plan: Plan) -> dict[str, list[Run]]:
    """Return the trainings of each table with all its parts; one of two tables is in the first."""
    tables: defaultdict[str, list[Run]] = defaultdict(list)
    before: set[Run] = set()
    for name in plan.tables:
        own = tables[file_and_part(plan.params, name)[0]]
        for run in plan.table_runs(name):
            stages: list[Run] = []
            for part in run.parts():
                stages += plan.stages(part)
            for stage in stages:
                if stage not in before:
                    own.append(stage)
                    before.add(stage)
    return tables


def _hours(plan: Plan, costs: Costs, cost_of: CostOf, measure: str) -> Iterator[str]:
    assumed = ", assumed, not measured (--tflops, --measured)" if costs.tflops else ", measured"
    yield (
        f"Hours of trainings on {costs.machine}{assumed}; with validations, without features, "
        "evaluations and early stops:"
    )
    rows = [["table", "trainings", "not measured", "hours"]]
    for name, runs in [*table_trainings(plan).items(), ("all", list(cost_of))]:
        known = [cost.seconds for run in runs if (cost := cost_of[run])]
        hours = _number(sum(known) / 3600) if known or not runs else "?"
        rows.append([name, f"{len(runs):,}", f"{len(runs) - len(known):,}", hours])
    yield from _columns(rows, numbers=range(1, len(rows[0])))
    unknown = [run for run, cost in cost_of.items() if cost is None]
    if unknown:
        models = ", ".join(dict.fromkeys(run.model for run in unknown))
        yield (
            f"Without {len(unknown):,} of {counted(len(cost_of), 'training')} whose steps were not "
            f"measured ({_cut(models)}). `{measure}` measures them, for --measured."
        )


def reported(plan: Plan, costs: Costs) -> Iterator[str]:
    """Yield what others report of trainings at the paper's scale, each beside our hours."""
    file = plan.params / REPORTS
    for each in (
        read_json(file, list[ReportedHours])
        if file.is_file() and plan.profile.scale == PAPER
        else ()
    ):
        if each.table not in plan.tables:
            continue
        row = plan.row(f"{each.table}/{each.row}")
        run = row.runs[0].parts()[0]
        training = plan.first_stage(run) if each.stage == "xe" else run
        said = f"Reported of {row.row.label}, {STAGE_NAMES[each.stage]}: an epoch took {each.epoch}"
        if cost := costs.training(training):
            hours = cost.seconds / 3600 / costs.stage(training).epochs
            times = " to ".join(dict.fromkeys(f"{number / hours:.0f}" for number in each.gpu_hours))
            said += f", {times} times the {hours:.2f} hours on {costs.machine}"
        yield f"{said} ({each.source})"


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


def _number(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 10 else f"{hours:.2g}"
