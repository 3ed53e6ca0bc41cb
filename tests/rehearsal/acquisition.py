"""A paper's acquisition from a server that misbehaves, and with kills in each stage."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recap.core.errors import RecapError
from recap.core.hashing import sha256_file
from recap.metrics.spice import SPICE_MODELS
from recap.plan.outside import requirements
from recap.plan.paths import Paths
from recap.plan.run_plan import RunPlan
from recap.settings.versions import OutsideFile, list_of, read_versions
from rehearsal.faults import EVIL, FAULTS, Fault, Misbehavior, stalling
from rehearsal.prepare import INPUTS, SITE
from rehearsal.rehearse import begun
from rehearsal.spice import kill_install
from rehearsal.web import FOLDER as WEB
from rehearsal.workflow import Workflow, kill_at

_PART = ".part"


@dataclass(frozen=True)
class Played:
    """One fault of the server, or the stage of a kill, after which the same command completed."""

    fault: str
    file: str  # name of the file in the list, or path; empty: the paper has none that fits
    said: str  # the sentence of the workflow; of what healed, that it did

    @property
    def line(self) -> str:
        return f"{self.fault} | {self.file or '-'} | {self.said} | {'resumed' if self.file else 'not played'}"


@dataclass(frozen=True)
class _Site:
    """What is acquired: name in the list -> entry, and -> what is asked of the workflow for it."""

    workflow: Workflow
    faults: Misbehavior
    files: dict[str, OutsideFile]
    targets: dict[str, list[str]] = field(default_factory=dict)
    folders: dict[str, Path] = field(default_factory=dict)  # of unpacked archives
    pictures: list[str] = field(default_factory=list)


def rehearse_faults(paper: str, *, params: Path, folder: Path, **how: object) -> list[Played]:
    """Acquire all outside files of a paper anew from a server that plays each fault once, then with a kill a stage.

    The folder is that of a rehearsal, which can go on from there; arguments are those of `begun`.
    """
    faults, versions = Misbehavior(), list_of(params.absolute())
    shutil.rmtree(folder / INPUTS, ignore_errors=True)
    with begun(paper, params=params, folder=folder, misbehave=faults, **how) as each:
        plan = each.prepared.plan
        site = _site(plan, each.workflow, faults)
        played = [*_play(site), *_kills(site)]
        if any("SPICE" in plan.recipe(run.recipe).evaluation.metrics for run in plan.scored()):
            environment = each.workflow.environment()
            there = kill_install(faults, versions=versions, url=each.url, environment=environment)
            said = f"killed with {there} of {len(SPICE_MODELS)} outputs there"
            played.append(Played("SIGKILL in SPICE's models", SPICE_MODELS[-1], said))
        each.state.faults = [one.line for one in played]
        return played


def _site(plan: RunPlan, workflow: Workflow, faults: Misbehavior) -> _Site:
    paths = Paths(plan)
    needed = requirements(paths)
    listed = read_versions(list_of(plan.params))
    files_of_rules = [each for each in needed if each.entry and not each.pictures and each.how in ("fetch", "unpack")]
    alone = [each for each in files_of_rules if not each.archive and each.named_by != list_of(plan.params).name]
    targets = {each.entry.name: [each.path] for each in alone}
    folders = {}
    for each in files_of_rules:
        if each.archive:
            targets.setdefault(each.archive.name, []).append(each.path)
            folders[each.archive.name] = Path(paths.outside(each.entry.name))
    files = {name: listed[name] for name in targets if Path(SITE, name).is_file()}
    return _Site(workflow, faults, files, targets, folders, sorted(each.path for each in needed if each.pictures))


def _play(site: _Site) -> Iterator[Played]:
    """Play all faults, in as few rounds as there are files for."""
    left = list(FAULTS)
    while left:
        cast = _cast(left, site)
        left = [fault for fault in left if fault not in cast.values()]
        if not cast:
            yield from (Played(fault.name, "", "no file of this paper fits") for fault in left)
            return
        yield from _round(cast, site)


def _cast(faults: Sequence[Fault], site: _Site) -> dict[str, Fault]:
    """Give each fault the first free file that fits; those that only few files fit choose first."""
    cast: dict[str, Fault] = {}
    for fault in sorted(faults, key=lambda each: sum(map(each.fits, site.files.values()))):
        names = (name for name, file in site.files.items() if name not in cast and fault.fits(file))
        if (name := next(names, None)) is not None:
            cast[name] = fault
    return cast


def _round(cast: dict[str, Fault], site: _Site) -> list[Played]:
    for name in cast:
        _forget(name, site)
    targets = [target for name in cast for target in site.targets[name]]
    site.faults.begin(cast)
    done = site.workflow.attempt(*targets)
    said = done.stdout + done.stderr
    if "Traceback" in said:
        raise RecapError(f"a fault ended in a traceback instead of a sentence:\n{said}")
    played = [_met(name, fault, said, site) for name, fault in cast.items()]
    _finish(targets, site)
    for name in cast:
        _check_whole(name, site)
    return played


def _finish(targets: Sequence[str], site: _Site) -> None:
    """Run the workflow for what is missing; what is there has no rule and cannot be asked for."""
    site.faults.begin({})
    if missing := [target for target in targets if not Path(target).exists()]:
        site.workflow.run(*missing)


def _met(name: str, fault: Fault, said: str, site: _Site) -> Played:
    """Return how a fault was met; refuse what is neither healed nor told in one sentence."""
    place = Path(INPUTS, name)
    if all(Path(target).exists() for target in site.targets[name]):
        if not fault.heals:
            raise RecapError(f"{place}: was taken from a server that {fault.name!r}")
        if fault.resumes and not site.faults.asked_for_the_rest(name):
            raise RecapError(f"{place}: was asked for from its beginning again after a drop; a part of it was there")
        return Played(fault.name, name, "healed by itself")
    lines = {line.strip() for line in said.splitlines() if line.startswith(f"recap: {name}: ")}
    if fault.heals or len(lines) != 1:
        raise RecapError(f"{place}: {fault.name}: not one sentence, but {sorted(lines)}:\n{said}")
    if place.exists() or Path(EVIL).name in {path.name for path in Path.cwd().rglob("*")}:
        raise RecapError(f"{place}: {fault.name}: something was left that is not verified")
    return Played(fault.name, name, lines.pop().removeprefix("recap: "))


def _check_whole(name: str, site: _Site) -> None:
    """Refuse what is not as served after the same command, and what it left beside it."""
    place = Path(INPUTS, name)
    if place.exists() and sha256_file(place) != sha256_file(Path(SITE, name)):
        raise RecapError(f"{place}: is not what is served")
    missing = [target for target in site.targets[name] if not Path(target).exists()]
    left = [path for path in place.parent.iterdir() if path.name.startswith(f"{place.name}{_PART}")]
    if missing or left or (name in site.folders and _hidden(site.folders[name]).exists()):
        raise RecapError(f"{place}: the same command did not complete it (missing {missing}, left {left})")


def _forget(name: str, site: _Site) -> None:
    """Remove a file with what is recorded of it, and what was unpacked of it."""
    for path in Path(INPUTS, name).parent.glob(f"{Path(name).name}*"):
        path.unlink()
    if name in site.folders:
        shutil.rmtree(site.folders[name], ignore_errors=True)


def _hidden(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}{_PART}")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _kills(site: _Site) -> Iterator[Played]:
    """Kill the workflow in each stage, and have the same command finish."""
    name = next(iter(site.files))
    part = Path(INPUTS, name + _PART)
    _forget(name, site)
    reached = _stall(name, site)
    yield _killed("fetch", name, site.targets[name], site, lambda: reached() and _size(part) > 0)
    _check_whole(name, site)
    if archive := next(iter(site.folders), None):
        _forget(archive, site)
        places = [_hidden(site.folders[archive]), *map(Path, site.targets[archive])]
        yield _killed("unpack", archive, site.targets[archive], site, lambda: any(map(Path.exists, places)))
        _check_whole(archive, site)
    for target in site.pictures[:1]:
        yield _killed("web pictures", target, [target], site, _stall(f"{WEB}/*", site))
        if not Path(target).exists():
            raise RecapError(f"{target}: was not made by the same command after a kill")


def _stall(name: str, site: _Site) -> Callable[[], bool]:
    """Let the server stop in the middle of a file, and return whether it did."""
    reached = threading.Event()
    site.faults.begin({name: stalling(reached)})
    return reached.is_set


def _killed(stage: str, file: str, targets: list[str], site: _Site, reached: Callable[[], bool]) -> Played:
    """Kill Snakemake and its jobs when a point is reached, then run the same command to its end."""
    kill_at(site.workflow.command(targets), site.workflow.environment(), reached, f"{file}: the workflow in {stage}")
    done = sum(Path(target).exists() for target in targets)
    _finish(targets, site)
    return Played(f"SIGKILL in {stage}", file, f"killed with {done} of {len(targets)} outputs there")
