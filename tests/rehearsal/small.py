"""The copy of the parameter files that a rehearsal works with:
the same tables and rows, in tiny sizes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from recap.core.errors import ConfigError
from recap.settings.params import files, merged, names, papers, read_mapping, resolve

SCALE, PAPER_SCALE = "rehearsal", "paper"
# sizes of the miniatures, and what is changed; sizes of models, and seeds, are in the scale
FILE = "rehearsal.yaml"


def write_small(source: Path, out: Path, *, detectron2: bool) -> dict[str, Any]:
    """Copy the parameter files anew, make the copy small, with stand-ins for detectron2.

    Return `rehearsal.yaml`.
    """
    settings = read_mapping(source / FILE)
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(source, out)
    _take_the_papers_place(out)
    kinds = settings["features"] | settings["detectors" if detectron2 else "stand_ins"]
    _change(out, "datasets", lambda values: _of_kind(values, settings["datasets"]))
    _change(
        out, "features", lambda values: merged(_network(values, settings), _of_kind(values, kinds))
    )
    _change(out, "recipes", lambda values: _short(values, settings))
    _change(out, "studies", lambda values: settings["studies"])
    return settings


def _take_the_papers_place(params: Path) -> None:
    """Give the sizes of scale `rehearsal` the name of scale `paper`,
    whose tables and rows are those of a rehearsal."""
    folders = [params / "scales", *(params / paper / "scales" for paper in papers(params))]
    files_of_scale = [file for folder in folders if (file := folder / f"{SCALE}.yaml").is_file()]
    if not files_of_scale:
        raise ConfigError(
            f"{params}: there is no scales/{SCALE}.yaml, which has the sizes of a rehearsal; "
            "restore it"
        )
    for file in files_of_scale:
        file.replace(file.with_name(f"{PAPER_SCALE}.yaml"))


def _change(
    params: Path, section: str, changes_of: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """Lay changes over the files of a section.

    Files that others are based on come first or last, it is the same.
    """
    changed = {}
    for name in names(params, section):
        changes = changes_of(resolve(params, section, name))
        for file in files(params, section, name) if changes else ():
            changed[file] = merged(read_mapping(file), changes)
    for file, values in changed.items():
        write_yaml(file, values)


def _of_kind(values: Mapping[str, Any], changes: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    return changes.get(str(values.get("kind")), {})


def _short(values: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes of a recipe: a few steps a stage, and short captions."""
    steps = {key: settings[key] for key in ("epochs", "images_per_batch")}
    stages = [stage for stage in ("xe", "scst") if values.get(stage)]
    return {**dict.fromkeys(stages, steps), "evaluation": {"max_length": settings["max_length"]}}


def _network(values: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the small network in place of a backbone
    with weights from the hub, and the size of what it sees."""
    backbone = values.get("backbone")
    if backbone is None or values.get("weights") != "pretrained":
        return {}
    network = next(
        (each for each in settings["networks"] if re.match(each["begins"], backbone)), None
    )
    if network is None:
        raise ConfigError(
            f"{FILE}: networks: none is in place of {backbone!r}; add one that begins with ''"
        )
    cells = values.get("grid")
    return {
        "backbone": network["backbone"],
        "image_size": cells * network["stride"] if cells else settings["crop_pixels"],
        **({"revision": None} if "revision" in values else {}),
    }


def write_yaml(path: Path, values: Mapping[str, Any]) -> None:
    """Write a parameter file."""
    path.write_text(
        yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True), encoding="utf-8"
    )
