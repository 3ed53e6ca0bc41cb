"""Loads plans: as Snakemake reads profiles, by a paper's name, and of one row alone."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from recap.core.documents import read_mapping
from recap.core.errors import ConfigError, UnknownName, nearest
from recap.core.process import devices
from recap.plan.claims import claims_spec, read_claims, tables_of
from recap.plan.plan import Plan
from recap.plan.resolve import resolve
from recap.plan.run import file_name
from recap.settings.params import (
    load_profile,
    load_profiles,
    profile_tables,
    profiles,
    refuse_other_scale,
)
from recap.settings.specs import ClaimsSpec

PARAMS, ROW = "params_dir", "row"  # keys beside those of the profile
PAPER = "paper"  # the scale of papers at which nothing is replaced
# name of the profile of a row that is trained alone, and of its folder below work/
SINGLE = "single"
UNUSABLE = re.compile(r"^[-.]|[/@{}\x00-\x1f]")  # in the names of parameter files


def load_plan(config: Mapping[str, Any], files: Sequence[str | Path] = ()) -> Plan:
    """Return the plan of a profile that Snakemake read from `files`, if it can be made here."""
    for file in files:
        refuse_other_scale(config, read_mapping(Path(file)), str(file))
    plan = unchecked_plan(config)
    _refuse_unusable_names(plan)
    if set("{}") & set(inputs := plan.profile.inputs):
        raise ConfigError(
            f"inputs={inputs}: Snakemake takes braces for wildcards; use a folder without them"
        )
    number = len(devices())
    for name in sorted({run.recipe for run in plan.scored}):
        recipe = plan.settings.recipe(name)
        if recipe.evaluation.split != "test":
            raise ConfigError(
                f"recipe {name!r}: evaluation.split is 'val', but tables have test scores; say test"
            )
        # No GPU here: the jobs are those of a cluster, whose nodes have them.
        if plan.gpus and number and recipe.processes > number:
            raise ConfigError(
                f"recipe {name!r}: {recipe.processes} processes want a GPU each of {number}; set "
                "`processes` lower"
            )
    return plan


def _refuse_unusable_names(plan: Plan) -> None:
    """Refuse names of parameter files that cannot be parts of paths."""
    names = {("tables", file_name(table_id)) for table_id in plan.tables}
    for run in plan.shown:
        names |= {("datasets", run.dataset), ("subsets", run.subset)}
        names |= {("models", run.model), ("recipes", run.recipe)}
        names |= {("features", name) for name in run.features.split("+")}
    for section, name in sorted(names):
        if UNUSABLE.search(name):
            raise ConfigError(
                f"{section}/{name}.yaml: a name cannot begin with - or ., nor hold / @ {{ }}; "
                "rename it"
            )


def unchecked_plan(config: Mapping[str, Any]) -> Plan:
    """Return the plan of a profile's keys, with `params_dir`, and of `row` alone if given."""
    values = {key: value for key, value in config.items() if key not in (PARAMS, ROW)}
    profile = load_profile(values, f"profile {values.get('name', '(without a name)')}")
    return resolve(profile, Path(config.get(PARAMS, "params")), alone=config.get(ROW))


def profile_name(file: Path) -> str:
    """Return the name of a profile by its file, or by its name."""
    return file.absolute().parent.name if file.name == "profile.yaml" else file.stem


def named_plan(
    params: Path, name: str, *, scale: str | None = None, inputs: str | None = None
) -> Plan:
    """Return the plan of a profile by name or file, by default at `paper` or its first scale."""
    shipped = {profile_name(path): path for path in profiles(params)}
    file = Path(name) if name.endswith((".yaml", ".yml", ".json")) else shipped.get(name)
    if file is None or not file.is_file():
        raise UnknownName(f"{name}: no such profile; {nearest(name, shipped)}")
    config = read_mapping(file)
    scales = list(config.get("scales") or {})
    if scale is None and scales:
        scale = PAPER if PAPER in scales else scales[0]
    changes = {"scale": scale, "inputs": inputs}
    return unchecked_plan(
        {**config, **{key: value for key, value in changes.items() if value}, PARAMS: str(params)}
    )


def paper_claims(
    params: Path, paper: str, *, scale: str | None, results: Path
) -> tuple[ClaimsSpec, Path]:
    """Return claims of a paper at a scale (default: first with scores), and its scores' folder."""
    claims = read_claims(params, paper)
    every = load_profiles(params / paper / "profile.yaml")
    at_scale = [each for each in every if scale in (None, each.scale)]
    if not at_scale:
        raise ConfigError(
            f"{paper} has no scale {scale!r}; {nearest(str(scale), [str(p.scale) for p in every])}"
        )
    scored = [each for each in at_scale if (results / each.name / "scores").is_dir()]
    profile = (scored or at_scale)[0]
    scores = results / profile.name / "scores"
    planned = profile_tables(params, profile)
    tables = [name for name in tables_of(claims) if name in planned]
    spec = ClaimsSpec(scale=profile.scale or "", claims=claims, tables={})
    if tables:
        alone = profile.model_copy(update={"tables": tables, "figures": [], "studies": []})
        spec = claims_spec(replace(resolve(alone, params), claims=claims)) or spec
    return spec, scores


def row_config(
    params: Path,
    row: str,
    *,
    profile: Path | None = None,
    scale: str | None = None,
    seed: int | None = None,
    inputs: Path | None = None,
) -> dict[str, Any]:
    """Return the config that plans one row (``TABLE/ROW``), with scale, seed and inputs."""
    table, slash, _ = row.rpartition("/")
    if not slash:
        raise ConfigError(
            f"--row {row}: name table and row: TABLE/ROW (`recap params list tables` lists the "
            "tables)"
        )
    name = re.sub("[^a-z0-9_]", "_", f"{SINGLE}_{scale}") if scale else SINGLE
    config = {"name": name, "scale": scale} if profile is None else read_mapping(profile)
    if scale is not None and "scales" not in config and config.get("scale") != scale:
        own = f"at scale {config['scale']}" if config.get("scale") else "without a scale"
        raise ConfigError(f"--scale {scale}: {profile} is {own}; leave --scale or --profile out")
    changes = {
        "scale": scale,
        "seeds": seed if seed is None else [seed],
        "inputs": inputs and str(inputs),
    }
    config |= {key: value for key, value in changes.items() if value is not None}
    return config | {"tables": [table], "figures": [], "studies": [], PARAMS: str(params), ROW: row}
