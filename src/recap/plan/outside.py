"""The outside files that a plan still needs, and which the workflow gets by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from recap.core.errors import ConfigError
from recap.core.log import log
from recap.plan.paths import Paths, used_stores
from recap.plan.run import Run
from recap.settings import ModelConfig
from recap.settings.base import HUB
from recap.settings.datasets import WebPictures
from recap.settings.models import LANGUAGE_MODEL
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


def missing_files(paths: Paths, model: ModelConfig | None = None) -> list[MissingFile]:
    """Return what a plan still needs, each once.

    A `model` that is trained here takes the place of the runs'.
    """
    plan = paths.plan
    versions = list_of(plan.params)
    listed = read_versions(versions) if versions.exists() else {}
    pictures: dict[str, WebPictures] = {}
    for name in plan.datasets():
        for file, each in plan.get("datasets", name).web_pictures().items():
            pictures[paths.outside(file)] = replace(each, tsv=paths.outside(each.tsv))
    missing: dict[str, MissingFile] = {}
    from_hub: dict[str, MissingFile] = {}
    for path, named_by in _wanted(paths, model):
        if path.startswith(HUB):
            entry = listed.get(path.partition("@")[0].replace(HUB, "hub/", 1))
            from_hub[path] = MissingFile(path, named_by, entry, "hub")
        elif not Path(path).exists():
            needed = _missing(path, named_by, plan.profile.inputs, listed, pictures.get(path))
            missing[path] = needed
            if (archive := needed.archive) is None:
                continue
            place = paths.outside(archive.name)
            if not Path(place).exists():
                how: How = "fetch" if archive.urls else "hand"
                missing.setdefault(place, MissingFile(place, versions.name, archive, how))
    return [*missing.values(), *from_hub.values()]


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


def _wanted(paths: Paths, model: ModelConfig | None) -> Iterator[tuple[str, str]]:
    """Yield the outside files and names of the hub of products that are still to be made."""
    for product, named_by, needs in _named_files(paths, model):
        if product is None or not Path(product).exists():
            for path in needs:
                yield path, named_by


NamedFiles = tuple[str | None, str, Iterable[str]]


def _named_files(paths: Paths, model: ModelConfig | None) -> Iterator[NamedFiles]:
    """Yield products of the plan, each with a parameter file
    and the outside files and names of the hub in it."""
    plan = paths.plan
    yield from _dataset_files(paths)
    for store in used_stores(plan):
        needs = list(paths.outside_files("features", store.features))
        if hub := plan.get("features", store.features).hub():
            needs.append(hub)
        yield paths.store(store.dataset, store.features), f"features/{store.features}.yaml", needs
    for scored in plan.scored():
        for run in scored.parts():
            yield from _weight_files(paths, run, model)
    for figure in plan.model_figures:
        needs = [paths.outside(name) for name in figure.settings.texts()]
        for file in figure.files:
            yield f"{paths.reports}/figures/{file}", f"tables/{figure.table}.yaml", needs
    for each in plan.scored_files():
        needs = [paths.outside(file) for file in each.files]
        yield paths.scores(each)[-1], f"tables/{each.table}.yaml", needs


def _dataset_files(paths: Paths) -> Iterator[NamedFiles]:
    names = paths.plan.datasets()
    for name in names:
        product = paths.of_dataset(name, "corpus.parquet")
        yield product, f"datasets/{name}.yaml", paths.outside_files("datasets", name)
    for name in names:
        hub = getattr(paths.plan.get("datasets", name).vocabulary, "tokenizer", "")
        needs = list(paths.outside_files("datasets", name, "vocabulary"))
        if hub.startswith(HUB):
            needs.append(hub)
        yield paths.of_dataset(name, "vocabulary.json"), f"datasets/{name}.yaml", needs


def _weight_files(paths: Paths, run: Run, model: ModelConfig | None) -> Iterator[NamedFiles]:
    """Yield the pretrained weights that a run begins with, if any."""
    plan = paths.plan
    source = (model or plan.get("models", run.model)).pretrained_weights() or ""
    if source.startswith(LANGUAGE_MODEL):
        name = source.removeprefix(LANGUAGE_MODEL)
        needs = paths.outside_files("language_models", name)
        yield paths.pretrained(run, model)[0], f"language_models/{name}.yaml", needs
    elif source:
        product = None if model else paths.weights(plan.weights(run))
        needs = [source] if source.startswith(HUB) else paths.pretrained(run, model)
        yield product, f"models/{run.model}.yaml", needs


def refuse_missing(needed: Sequence[MissingFile], paths: Paths) -> None:
    """Refuse a plan of whose missing files some are made by no rule, after a line about each."""
    missing, profile = [each for each in needed if each.how != "hub"], paths.plan.profile
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
