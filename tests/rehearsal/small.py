"""The copy of the parameter files that a rehearsal works with: the same tables and rows, in tiny sizes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, PositiveInt

from recap.core.errors import ConfigError
from recap.settings.base import Strict
from recap.settings.params import files, merged, names, papers, read_mapping, resolve, validate

SCALE, PAPER_SCALE = "rehearsal", "paper"
FILE = "rehearsal.yaml"


# Kind -> what its settings say in a rehearsal.
Changes = dict[str, dict[str, Any]]


class SmallNetwork(Strict):
    """A small network of timm in place of those whose names begin alike."""

    begins: str = Field(description="beginning of a backbone's name; empty: any other")
    backbone: str = Field(description="the small network")
    stride: PositiveInt = Field(description="pixels of the picture per cell of its map")


class Rehearsal(Strict):
    """``params/rehearsal.yaml``: sizes of the miniatures, and what is changed in the parameter files of a rehearsal.

    Sizes of models, and seeds, are those of the scale ``rehearsal``.
    """

    train_images: PositiveInt = Field(description="training images, if subsets do not ask for more")
    subset_captions: PositiveInt = Field(description="captions of the smallest subset")
    held_out_images: PositiveInt = Field(description="images of each other split")
    epochs: PositiveInt = Field(description="of each stage of every recipe")
    images_per_batch: PositiveInt = Field(description="of each stage of every recipe")
    max_length: PositiveInt = Field(description="words of a decoded caption, of every recipe")
    networks: list[SmallNetwork] = Field(min_length=1)
    crop_pixels: PositiveInt = Field(description="edge of a crop")
    datasets: Changes = Field(default_factory=dict)
    features: Changes = Field(default_factory=dict)
    detectors: Changes = Field(description="features of detectron2, where it is installed")
    stand_ins: Changes = Field(description="the same, where it is not installed")
    studies: dict[str, Any] = Field({}, description="keys of every human study")


def read_rehearsal(params: Path) -> Rehearsal:
    """Return the settings of rehearsals."""
    settings: Rehearsal = validate(Rehearsal, read_mapping(params / FILE), str(params / FILE))
    return settings


def write_small(source: Path, out: Path, *, detectron2: bool) -> Rehearsal:
    """Copy the folder of parameter files anew, make the copy small, and return the settings of rehearsals.

    Without detectron2, stand-ins take the place of detectors.
    """
    settings = read_rehearsal(source)
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(source, out)
    _take_the_papers_place(out)
    kinds = settings.features | (settings.detectors if detectron2 else settings.stand_ins)
    _change(out, "datasets", lambda values: _of_kind(values, settings.datasets))
    _change(out, "features", lambda values: merged(_network(values, settings), _of_kind(values, kinds)))
    _change(out, "recipes", lambda values: _short(values, settings))
    _change(out, "studies", lambda values: settings.studies)
    return settings


def _take_the_papers_place(params: Path) -> None:
    """Give the sizes of scale `rehearsal` the name of scale `paper`, whose tables and rows are those of a rehearsal."""
    folders = [params / "scales", *(params / paper / "scales" for paper in papers(params))]
    files_of_scale = [file for folder in folders if (file := folder / f"{SCALE}.yaml").is_file()]
    if not files_of_scale:
        raise ConfigError(f"{params}: there is no scales/{SCALE}.yaml, which has the sizes of a rehearsal; restore it")
    for file in files_of_scale:
        file.replace(file.with_name(f"{PAPER_SCALE}.yaml"))


def _change(params: Path, section: str, changes_of: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Lay changes over the files of a section; files that others are based on come first or last, it is the same."""
    changed = {}
    for name in names(params, section):
        changes = changes_of(resolve(params, section, name))
        for file in files(params, section, name) if changes else ():
            changed[file] = merged(read_mapping(file), changes)
    for file, values in changed.items():
        write_yaml(file, values)


def _of_kind(values: Mapping[str, Any], changes: Changes) -> dict[str, Any]:
    return changes.get(str(values.get("kind")), {})


def _short(values: Mapping[str, Any], settings: Rehearsal) -> dict[str, Any]:
    """Return the changes of a recipe: a few steps a stage, and short captions."""
    steps = {"epochs": settings.epochs, "images_per_batch": settings.images_per_batch}
    stages = [stage for stage in ("xe", "scst") if values.get(stage)]
    return {**dict.fromkeys(stages, steps), "evaluation": {"max_length": settings.max_length}}


def _network(values: Mapping[str, Any], settings: Rehearsal) -> dict[str, Any]:
    """Return the small network in place of a backbone with weights from the hub, and the size of what it sees."""
    backbone = values.get("backbone")
    if backbone is None or values.get("weights") != "pretrained":
        return {}
    network = next((each for each in settings.networks if re.match(each.begins, backbone)), None)
    if network is None:
        raise ConfigError(f"{FILE}: networks: none is in place of {backbone!r}; add one that begins with ''")
    cells = values.get("grid")
    return {
        "backbone": network.backbone,
        "image_size": cells * network.stride if cells else settings.crop_pixels,
        **({"revision": None} if "revision" in values else {}),
    }


def write_yaml(path: Path, values: Mapping[str, Any]) -> None:
    """Write a parameter file."""
    path.write_text(yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True), encoding="utf-8")
