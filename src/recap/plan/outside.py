"""The outside files that a plan still needs, all at once, and which of them the workflow gets by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from recap.core.errors import ConfigError
from recap.core.log import log
from recap.plan.inputs import hub_files, missing_inputs, pictures_to_fetch
from recap.plan.paths import Paths
from recap.settings import ModelConfig
from recap.settings.base import HUB
from recap.settings.datasets import WebPictures
from recap.settings.versions import OutsideFile, entry_of, list_of, read_versions

How = Literal["fetch", "unpack", "hand", "hub"]


@dataclass(frozen=True)
class Requirement:
    """An outside file or folder that is missing and that something still to be made needs."""

    path: str  #: where it must be; for the hub ``hub:OWNER/NAME``, with ``@REVISION`` where one is pinned
    named_by: str  #: the parameter file that names it, or the list of outside files for an archive to be unpacked
    entry: OutsideFile | None  #: what the list of outside files says of it or of its folder; None if it is not listed
    #: by the workflow from the network, by the workflow from an archive, by a person, or by a job from the hub, unless
    #: its cache there has it
    how: How
    archive: OutsideFile | None = None  #: for `unpack`, the archive; if that is missing, it is a requirement, too


@dataclass
class Acquired:
    """The missing files that rules make, by path."""

    #: path -> name in the list of outside files, of what a parameter file names
    fetched: dict[str, str] = field(default_factory=dict)
    archives: dict[str, str] = field(default_factory=dict)  #: the same of what is only unpacked
    #: path -> name in the list; the path is that of this folder, or of a file in it
    unpacked: dict[str, str] = field(default_factory=dict)
    #: list of pictures of the open web -> what is fetched, with the path of the TSV
    pictures: dict[str, WebPictures] = field(default_factory=dict)


def requirements(paths: Paths, model: ModelConfig | None = None) -> list[Requirement]:
    """Return every outside file or folder that a plan still needs, archives included, each once.

    Args:
        paths: of the plan; its params folder has the list of outside files.
        model: settings in place of those of the planned runs, which are about to be trained in this process.
    """
    versions = list_of(paths.plan.params)
    listed = read_versions(versions) if versions.exists() else {}
    pictures = pictures_to_fetch(paths)
    found: dict[str, Requirement] = {}
    for path, named_by in missing_inputs(paths, model).items():
        entry = entry_of(_name(path, paths), listed)
        archive = listed[entry.archive] if entry and entry.archive else None
        how: How = "unpack" if archive else "fetch" if path in pictures or _has_address(entry, path, paths) else "hand"
        found[path] = Requirement(path, named_by, entry, how, archive)
        if archive and not Path(place := paths.outside(archive.name)).exists():
            how = "fetch" if archive.urls else "hand"
            found.setdefault(place, Requirement(place, versions.name, archive, how))
    for name, named_by in hub_files(paths, model).items():
        repository = name.partition("@")[0]
        found[name] = Requirement(name, named_by, listed.get(repository.replace(HUB, "hub/", 1)), "hub")
    return list(found.values())


def acquired(needed: Sequence[Requirement], paths: Paths) -> Acquired:
    """Return which of the missing files rules make."""
    missing = [each for each in needed if each.how != "hub"]
    by_hand = [each for each in missing if each.how == "hand" or not paths.plan.profile.fetch]
    if by_hand:
        for each in missing:
            log.error(f"recap: missing: {line(each)}")
        raise ConfigError(_refusal(missing, by_hand[0], paths))
    pictures = pictures_to_fetch(paths)
    found = Acquired()
    for each in missing:
        if each.path in pictures:
            found.pictures[each.path] = pictures[each.path]
        elif each.entry is not None:
            fetched = found.archives if each.named_by == list_of(paths.plan.params).name else found.fetched
            (found.unpacked if each.archive else fetched)[each.path] = each.entry.name
    return found


def line(needed: Requirement) -> str:
    """Return one line about a missing file: path, who names it, where it comes from, bytes, license."""
    return "; ".join([f"{needed.path} ({needed.named_by})", *_facts(needed)])


def _facts(needed: Requirement) -> Iterator[str]:
    entry = needed.entry
    if entry is None:
        unlisted = {"hub": "from the hub", "fetch": "fetched from the addresses in its TSV"}
        yield unlisted.get(needed.how, "not in the list of outside files: put it there")
        return
    if needed.how == "hub":
        yield "from the hub"
    elif needed.archive is not None:
        yield f"unpacked from {needed.archive.name}"
    elif entry.urls:
        yield " or ".join(entry.urls)
    else:
        yield f"by hand: {entry.note}" if needed.how == "hand" else entry.note
    if entry.bytes is not None:
        yield f"{entry.bytes / 2**30:.3g} GiB"
    elif needed.how != "unpack":
        yield "size not known"
    yield entry.licence


def _name(path: str, paths: Paths) -> str:
    """Return the name of an outside file in the list."""
    place, inputs = Path(path), paths.plan.profile.inputs
    return (place.relative_to(inputs) if place.is_relative_to(inputs) else place).as_posix()


def _has_address(entry: OutsideFile | None, path: str, paths: Paths) -> bool:
    return entry is not None and bool(entry.urls) and entry.name == _name(path, paths)


def _refusal(missing: Sequence[Requirement], first: Requirement, paths: Paths) -> str:
    """Return the sentence that refuses a profile without its files."""
    inputs = paths.plan.profile.inputs
    gettable = 0 if paths.plan.profile.fetch else sum(each.how != "hand" for each in missing)
    others = f"; {len(missing) - 1} more are missing (one line each above)" if len(missing) > 1 else ""
    fetch = f", or have {gettable} of {len(missing)} made with --config fetch=true inputs={inputs}" if gettable else ""
    return (
        f"{first.path}: no such file or folder; {first.named_by} names it{others}: put it there, or say where your "
        f"files are with --config inputs=FOLDER (recap train: --inputs FOLDER){fetch}"
    )
