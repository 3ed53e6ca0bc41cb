"""What a rehearsal needs before its first job:
small parameter files, miniatures, a list of local addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Any

from recap.core.documents import read_mapping
from recap.core.errors import ConfigError
from recap.plan.jobs import plan_jobs
from recap.plan.outside import MissingFile, missing_files
from recap.plan.plan import Plan
from recap.plan.profiles import PARAMS, load_plan
from recap.settings.base import HUB
from recap.settings.params import papers
from recap.settings.versions import list_of, read_versions
from rehearsal import server
from rehearsal.cut import cut_rows
from rehearsal.files import write_list, write_outside_file, write_repository
from rehearsal.hub import Gpt2Sizes
from rehearsal.small import PAPER_SCALE, SCALE, write_small, write_yaml
from rehearsal.world import CAPTIONS, World

SITE, INPUTS, COPY = "site", "inputs", "params"


@dataclass(frozen=True)
class Prepared:
    """A folder in which a paper's workflow can run."""

    configfile: Path
    plan: Plan
    by_hand: dict[str, str]  # files that a person brings -> the steps
    stand_ins: list[str]  # features that stand-ins make


def rehearsable(params: Path) -> list[str]:
    """Return the papers whose profile has the scale of the paper."""
    profiles = {paper: params / paper / "profile.yaml" for paper in papers(params)}
    return [
        paper
        for paper, file in profiles.items()
        if file.is_file() and PAPER_SCALE in read_mapping(file).get("scales", {})
    ]


def prepare(paper: str, params: Path, *, url: str, short: bool) -> Prepared:
    """Write all that a paper's workflow needs into the working folder, where it is not there.

    ``short`` cuts rows.
    """
    copy = Path(COPY)
    settings = write_small(params, copy, detectron2=find_spec("detectron2") is not None)
    configfile = copy / paper / "profile.yaml"
    changes: dict[str, Any] = {
        "scale": PAPER_SCALE,
        "inputs": INPUTS,
        "fetch": True,
        "execution": {"threads": 1},
    }
    plan = _plan(configfile, changes)
    if short:
        plan = _plan(configfile, cut_rows(plan))
    needed = missing_files(plan, plan_jobs(plan))
    by_hand = _write_files(needed, _world(plan, settings, url), plan, url)
    features = sorted({name for run in plan.scored for name in run.features.split("+")})
    stand_ins = [
        name for name in features if plan.settings.get("features", name).kind.startswith("stand_in")
    ]
    return Prepared(configfile, plan, by_hand, stand_ins)


def _plan(configfile: Path, changes: dict[str, Any]) -> Plan:
    """Return the plan of a profile whose file gets changes.

    An error names the file of a scale that was copied.
    """
    values = read_mapping(configfile) | changes
    write_yaml(configfile, values)
    try:
        return load_plan(values | {PARAMS: COPY})
    except ConfigError as error:
        own = str(error).replace(f"/scales/{PAPER_SCALE}.yaml", f"/scales/{SCALE}.yaml")
        raise type(error)(own) from error


def _world(plan: Plan, settings: dict[str, Any], url: str) -> World:
    """Return as many pictures as the smallest subsets of a plan can be drawn from."""
    train = web = settings["train_images"]
    for run in plan.scored:
        subset = plan.settings.get("subsets", run.subset)
        units = ceil(settings["subset_captions"] / Fraction(str(subset.fraction)))
        if plan.settings.get("datasets", run.dataset).kind == "conceptual":
            web = max(web, units)
        else:
            train = max(train, ceil(units / CAPTIONS) if subset.unit == "pair" else units)
    datasets = [plan.settings.get("datasets", name) for name in plan.datasets]
    web += sum(dataset.val_pairs for dataset in datasets if dataset.kind == "conceptual")
    return World(
        train=train,
        held_out=settings["held_out_images"],
        web=web,
        studies=settings["train_images"],
        address=url,
    )


def _write_files(
    needed: Sequence[MissingFile], world: World, plan: Plan, url: str
) -> dict[str, str]:
    """Write the miniatures of all outside files and their list,
    and return those that a person would bring."""
    site, by_hand = Path(SITE), {}
    for each in needed:
        if each.how == "hub":
            repository = each.path.removeprefix(HUB).partition("@")[0]
            write_repository(repository, site / server.HUB, _gpt2_sizes(plan))
            continue
        name = str(Path(each.path).relative_to(INPUTS))
        if each.how == "hand":
            write_outside_file(name, world, Path(INPUTS))
            by_hand[name] = each.entry.note if each.entry else f"{each.named_by} names it"
        elif each.how == "fetch" and each.entry is not None and each.entry.urls:
            write_outside_file(name, world, site)
    versions = list_of(plan.params)
    served = {name: site / name for name in read_versions(versions) if (site / name).is_file()}
    write_list(versions, versions, served=served, url=url)
    return by_hand


def _gpt2_sizes(plan: Plan) -> Gpt2Sizes | None:
    """Return the sizes of a GPT-2 that all models
    of a plan can begin with, which begin with one of the hub."""
    models = [plan.settings.get("models", run.model) for run in plan.trained]
    models = [model for model in models if (model.pretrained_weights() or "").startswith(HUB)]
    if not models:
        return None
    return Gpt2Sizes(
        width=models[0].d_model,
        feed_forward=models[0].d_feed_forward,
        layers=max(model.decoder_layers for model in models),
        positions=max(model.positions for model in models),
    )
