"""What a rehearsal needs before its first job: small parameter files, miniatures, a list of local addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Any

from recap.core.documents import read_mapping
from recap.core.errors import ConfigError, nearest
from recap.plan.outside import Requirement, requirements
from recap.plan.paths import Paths
from recap.plan.profiles import PARAMS, load_plan
from recap.plan.run_plan import RunPlan
from recap.settings.base import HUB
from recap.settings.params import papers
from recap.settings.versions import list_of, read_versions
from rehearsal import server
from rehearsal.cut import cut_rows
from rehearsal.files import Gpt2Sizes, write_list, write_outside_file, write_repository
from rehearsal.small import PAPER_SCALE, Rehearsal, write_small, write_yaml
from rehearsal.world import CAPTIONS, World

SITE, INPUTS, COPY = "site", "inputs", "params"


@dataclass(frozen=True)
class Prepared:
    """A folder in which a paper's workflow can run."""

    configfile: Path  #: the profile's file
    plan: RunPlan  #: the plan
    by_hand: dict[str, str] = field(default_factory=dict)  #: files that a person brings -> the steps
    stand_ins: list[str] = field(default_factory=list)  #: features that stand-ins make


def check_paper(paper: str, params: Path) -> None:
    """Refuse a paper that cannot be rehearsed."""
    if paper not in rehearsable(params):
        raise ConfigError(f"there is no paper {paper!r} to rehearse; {nearest(paper, rehearsable(params))}")


def rehearsable(params: Path) -> list[str]:
    """Return the papers whose profile has the scale of the paper."""
    found = [paper for paper in papers(params) if (params / paper / "profile.yaml").is_file()]
    return [name for name in found if PAPER_SCALE in read_mapping(params / name / "profile.yaml").get("scales", {})]


def prepare(paper: str, params: Path, *, url: str, short: bool) -> Prepared:
    """Write all that the workflow of a paper needs into the working folder; what is there already stays.

    Args:
        paper: folder of ``params/``.
        params: that folder.
        url: address of the server of the site.
        short: whether rows are cut.
    """
    copy = Path(COPY)
    settings = write_small(params, copy, detectron2=find_spec("detectron2") is not None)
    configfile = copy / paper / "profile.yaml"
    changes: dict[str, Any] = {"scale": PAPER_SCALE, "inputs": INPUTS, "fetch": True, "execution": {"threads": 1}}
    plan = _plan(configfile, changes)
    if short:
        plan = _plan(configfile, cut_rows(plan))
    needed = requirements(Paths(plan))
    by_hand = _write_files(needed, _world(plan, settings, url), plan, url)
    detectors = sorted({name for run in plan.scored() for name in plan.feature_names(run.features)})
    stand_ins = [name for name in detectors if plan.get("features", name).kind.startswith("stand_in")]
    return Prepared(configfile, plan, by_hand, stand_ins)


def _plan(configfile: Path, changes: dict[str, Any]) -> RunPlan:
    """Return the plan of a profile whose file gets changes."""
    values = read_mapping(configfile) | changes
    write_yaml(configfile, values)
    return load_plan(values | {PARAMS: COPY})


def _world(plan: RunPlan, settings: Rehearsal, url: str) -> World:
    """Return as many pictures as the smallest subsets of a plan can be drawn from."""
    train, web = settings.train_images, settings.train_images
    for run in plan.scored():
        subset, kind = plan.get("subsets", run.subset), plan.get("datasets", run.dataset).kind
        units = ceil(settings.subset_captions / Fraction(str(subset.fraction)))
        if kind == "conceptual":
            web = max(web, units)
        else:
            train = max(train, ceil(units / CAPTIONS) if subset.unit == "pair" else units)
    drawn = sum(plan.get("datasets", name).val_pairs for name in plan.datasets() if _is_web(plan, name))
    return World(
        train=train, held_out=settings.held_out_images, web=web + drawn, studies=settings.train_images, address=url
    )


def _is_web(plan: RunPlan, dataset: str) -> bool:
    return bool(plan.get("datasets", dataset).kind == "conceptual")


def _write_files(needed: Sequence[Requirement], world: World, plan: RunPlan, url: str) -> dict[str, str]:
    """Write the miniatures of all outside files and their list, and return those that a person would bring."""
    site, by_hand = Path(SITE), {}
    for each in needed:
        name = str(Path(each.path).relative_to(INPUTS)) if each.how != "hub" else each.path
        if each.how == "hub":
            repository = each.path.removeprefix(HUB).partition("@")[0]
            write_repository(repository, site / server.HUB, _gpt2_sizes(plan))
        elif each.how == "hand":
            write_outside_file(name, world, Path(INPUTS))
            by_hand[name] = each.entry.note if each.entry else f"{each.named_by} names it"
        elif each.how == "fetch" and each.entry is not None and each.entry.urls:
            write_outside_file(name, world, site)
    versions = list_of(plan.params)
    served = {name: site / name for name in read_versions(versions) if (site / name).is_file()}
    write_list(versions, versions, served=served, url=url)
    return by_hand


def _gpt2_sizes(plan: RunPlan) -> Gpt2Sizes | None:
    """Return the sizes of a GPT-2 that all models of a plan can begin with, which begin with one of the hub."""
    models = [plan.get("models", run.model) for run in plan.trained()]
    found = [model for model in models if (model.pretrained_weights() or "").startswith(HUB)]
    if not found:
        return None
    return Gpt2Sizes(
        width=found[0].d_model,
        feed_forward=found[0].d_feed_forward,
        layers=max(model.decoder_layers for model in found),
        positions=max(model.positions for model in found),
    )
