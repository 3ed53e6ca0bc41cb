"""The outside files that a plan still needs, and which the workflow gets by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from recap.core.errors import ConfigError
from recap.core.log import log
from recap.plan.job import EntryPoints, Job
from recap.plan.plan import Plan
from recap.plan.specs import web_draws
from recap.settings import Profile
from recap.settings.base import HUB
from recap.settings.datasets import WebPictures
from recap.settings.versions import OutsideFile, entry_of, list_of, read_versions

How = Literal["fetch", "unpack", "hand", "hub"]


@dataclass(frozen=True)
class MissingFile:
    """An outside file or folder that is missing and that something still to be made needs."""

    #: where it must be; for the hub ``hub:OWNER/NAME``, with ``@REVISION`` where one is pinned
    path: str
    #: the parameter file that names it, or the list of outside files for an archive to be unpacked
    named_by: str
    #: what the list of outside files says of it or of its folder; None if it is not listed
    entry: OutsideFile | None
    #: by the workflow from the network or from an archive,
    #: by a person, or by a job from the hub's cache
    how: How
    #: for `unpack`, the archive; if that is missing, it is listed, too
    archive: OutsideFile | None = None
    #: of a list of pictures of the open web: what is fetched, the TSV by its path
    pictures: WebPictures | None = None


def missing_files(plan: Plan, jobs: Iterable[Job]) -> list[MissingFile]:
    """Return what jobs still need whose files are not all there, each once."""
    versions = list_of(plan.params)
    listed = read_versions(versions) if versions.exists() else {}
    pictures: dict[str, WebPictures] = {}
    for name in plan.datasets:
        for file, each in plan.settings.dataset(name).web_pictures().items():
            tsv = plan.files.outside(each.tsv)
            pictures[plan.files.outside(file)] = replace(each, tsv=tsv)
    missing: dict[str, MissingFile] = {}
    from_hub: dict[str, MissingFile] = {}
    for path, named_by in _wanted(jobs):
        if path.startswith(HUB):
            entry = listed.get(path.partition("@")[0].replace(HUB, "hub/", 1))
            from_hub[path] = MissingFile(path, named_by, entry, "hub")
        elif not Path(path).exists():
            needed = _missing(path, named_by, plan.profile.inputs, listed, pictures.get(path))
            missing[path] = needed
            if (archive := needed.archive) is None:
                continue
            place = plan.files.outside(archive.name)
            if not Path(place).exists():
                how: How = "fetch" if archive.urls else "hand"
                missing.setdefault(place, MissingFile(place, versions.name, archive, how))
    return [*missing.values(), *from_hub.values()]


def _wanted(jobs: Iterable[Job]) -> Iterator[tuple[str, str]]:
    """Yield the outside files and names of the hub of jobs that still have something to make."""
    for job in jobs:
        if job.outside and not all(Path(file).exists() for file in job.outputs.values()):
            for path in job.outside:
                yield path, job.named_by


def _missing(
    path: str,
    named_by: str,
    inputs: str,
    listed: Mapping[str, OutsideFile],
    pictures: WebPictures | None,
) -> MissingFile:
    """Return how a file that is not there comes here."""
    file = Path(path)
    name = (file.relative_to(inputs) if file.is_relative_to(inputs) else file).as_posix()
    entry = entry_of(name, listed)
    archive = listed[entry.archive] if entry and entry.archive else None
    how: How = "hand"
    if archive:
        how = "unpack"
    elif pictures or (entry and entry.urls and entry.name == name):
        how = "fetch"
    return MissingFile(path, named_by, entry, how, archive, pictures)


def acquisition_jobs(plan: Plan, needed: Sequence[MissingFile]) -> Iterator[Job]:
    """Yield the jobs that fetch or unpack missing files.

    A file that is there is the user's, and no rule may touch it.
    """
    versions = list_of(plan.params)
    folders: dict[str, list[MissingFile]] = {}
    for each in needed:
        if each.pictures:
            yield from _web_pictures(plan, each.path, each.pictures)
        elif each.how == "fetch" and each.entry:
            # An archive is kept where the profile says so, or where a parameter file names it.
            temporary = each.named_by == versions.name and not plan.profile.keep_archives
            yield Job(
                rule="fetch_to_unpack" if temporary else "fetch",
                wildcards={"file": each.entry.name},
                params={"list": str(versions)},
            )
        elif each.archive and each.entry:
            folders.setdefault(each.entry.name, []).append(each)
    # A folder of an archive is unpacked as a whole, whichever of its files are missing.
    for name, files in folders.items():
        archive = files[0].archive
        assert archive is not None  # of what is unpacked
        yield Job(
            rule="_".join(["unpack", *re.findall("[A-Za-z0-9]+", name)]),
            inputs={"archive": [plan.files.outside(archive.name)]},
            outputs={each.path: each.path for each in files},
            params={"list": str(versions), "folder": name},
        )


def _web_pictures(plan: Plan, survivors: str, pictures: WebPictures) -> Iterator[Job]:
    """Yield the job that fetches pictures of the open web, and that of the rows to ask for."""
    only: list[str] = []
    # Known before any picture is fetched, because draws go by numbers of rows.
    if draws := web_draws(plan, survivors):
        folder = Path(survivors).parent.relative_to(plan.profile.inputs).as_posix()
        only = list(plan.files.of("wanted_rows", pictures=folder).values())
        yield Job(
            rule="wanted_rows",
            wildcards={"pictures": folder},
            inputs={"tsv": [pictures.tsv]},
            spec=draws,
            code=EntryPoints(("recap.data.subsets:write_wanted",)),
        )
    # Finished shards are no outputs: a killed or repeated job goes on from them.
    yield Job(
        rule="web_pictures",
        wildcards={"pictures": survivors},
        inputs={"tsv": [pictures.tsv], "only": only},
        params={"min_side": pictures.min_side},
    )


def refuse_missing(needed: Sequence[MissingFile], profile: Profile) -> None:
    """Refuse a plan of whose missing files some are made by no rule, after a line about each."""
    missing = [each for each in needed if each.how != "hub"]
    first = next((each for each in missing if each.how == "hand" or not profile.fetch), None)
    if first is None:
        return
    for each in missing:
        log.error(f"recap: missing: {line(each)}")
    gettable = 0 if profile.fetch else sum(each.how != "hand" for each in missing)
    fetch = (
        f", or have {gettable} of {len(missing)} made with --config fetch=true "
        f"inputs={profile.inputs}"
    )
    raise ConfigError(
        f"{first.path}: no such file or folder; {first.named_by} names it: put it there, or say "
        "where your files are with --config inputs=FOLDER (recap train: --inputs "
        f"FOLDER){fetch if gettable else ''}"
    )


def line(needed: MissingFile) -> str:
    """Return one line about a missing file: path, who names it, origin, bytes, license."""
    entry = needed.entry
    if needed.how == "hub":
        source = "from the hub"
    elif entry is None and needed.how == "fetch":
        source = "fetched from the addresses in its TSV"
    elif entry is None:
        source = "not in the list of outside files: put it there"
    elif needed.archive is not None:
        source = f"unpacked from {needed.archive.name}"
    elif entry.urls:
        source = " or ".join(entry.urls)
    else:
        source = f"by hand: {entry.note}" if needed.how == "hand" else entry.note
    facts = [f"{needed.path} ({needed.named_by})", source]
    if entry and entry.bytes is not None:
        facts.append(f"{entry.bytes / 2**30:.3g} GiB")
    elif entry and needed.how != "unpack":
        facts.append("size not known")
    return "; ".join([*facts, entry.licence] if entry else facts)
