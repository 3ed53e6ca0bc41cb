"""``recap config``: check parameter files, and show what decides whether runs rerun."""

from __future__ import annotations

import json
from pathlib import Path

from recap.cli.arguments import Arguments, add_params_folder, paths
from recap.cli.parser import Commands, command
from recap.core.errors import counted


def add_config(commands: Commands) -> None:
    """Add the commands of this group."""
    parser = command(
        commands,
        "check",
        check,
        purpose="validate a profile, at each of its scales, and everything it names",
        example="recap config check params/demo.yaml",
    )
    parser.add_argument("profile", type=Path, help="YAML of the profile")
    add_params_folder(parser)
    parser = command(
        commands,
        "tables",
        tables,
        purpose="list the tables, each with the profiles that make it",
        example="recap config tables",
    )
    add_params_folder(parser)
    parser = command(
        commands,
        "schema",
        schema,
        purpose="write the JSON schemas of the parameter files",
        example="recap config schema --out workflow/schemas",
    )
    paths(parser, out="folder of the schemas")
    parser = command(
        commands,
        "identities",
        identities,
        purpose="show the hashes of parameters and digests of source that decide which finished runs rerun",
        example="recap config identities --write tests/golden/identities.json",
    )
    add_params_folder(parser)
    parser.add_argument("--write", type=Path, metavar="FILE", help="write them there (default: print them)")


def check(a: Arguments) -> None:
    """Validate a profile."""
    from recap.models.check import check_models
    from recap.plan.run_plan import RunPlan
    from recap.settings.params import load_profiles

    profiles = load_profiles(a.profile)
    for profile in profiles:
        plan = RunPlan(profile, a.params)
        check_models(plan)
        where = f"{a.profile} at scale {profile.scale}" if len(profiles) > 1 else a.profile
        print(f"{where}: {counted(len(plan.tables), 'table')}, {counted(len(plan.scored()), 'scored run')}")


def tables(a: Arguments) -> None:
    """List the tables with their profiles."""
    from recap.settings.params import profiles_of_tables

    for name, profiles in profiles_of_tables(a.params).items():
        print(f"{name:28} {', '.join(profiles) or 'in no profile'}")


def schema(a: Arguments) -> None:
    """Write the schemas."""
    from recap.settings.params import write_schemas

    for path in write_schemas(a.out):
        print(path)


def identities(a: Arguments) -> None:
    """Print or write the identities."""
    from recap.core.documents import write_json
    from recap.plan.identities import identities as found

    values = found(a.params)
    if a.write is None:
        print(json.dumps(values, indent=2))
    else:
        write_json(a.write, values)
