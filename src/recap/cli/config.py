"""``recap config``: check parameter files."""

from __future__ import annotations

from pathlib import Path

from recap.cli.arguments import Arguments, paths
from recap.cli.parser import Commands, command


def add_config(commands: Commands) -> None:
    """Add the commands of this group."""

    def check(a: Arguments) -> None:
        from recap.core.params import load_profile, read_mapping
        from recap.core.plan import RunPlan
        from recap.models.check import check_models

        plan = RunPlan(load_profile(read_mapping(a.profile), str(a.profile)), a.params)
        check_models(plan)
        print(f"{a.profile}: {len(plan.tables)} tables, {len(plan.scored())} scored runs")

    def tables(a: Arguments) -> None:
        from recap.core.params import profiles_of_tables

        for name, profiles in profiles_of_tables(a.params).items():
            print(f"{name:28} {', '.join(profiles) or 'in no profile'}")

    def schema(a: Arguments) -> None:
        from recap.core.schema import write_schemas

        for path in write_schemas(a.out):
            print(path)

    parser = command(
        commands,
        "check",
        purpose="validate a profile and everything it names",
        example="recap config check params/demo.yaml",
    )
    parser.add_argument("profile", type=Path, help="YAML of the profile")
    parser.add_argument(
        "--params", type=Path, default=Path("params"), metavar="PATH", help="folder of what it names (params)"
    )
    parser.set_defaults(function=check)
    parser = command(
        commands,
        "tables",
        purpose="list the tables, each with the profiles that make it",
        example="recap config tables",
    )
    parser.add_argument("--params", type=Path, default=Path("params"), metavar="PATH", help="folder of them (params)")
    parser.set_defaults(function=tables)
    parser = command(
        commands,
        "schema",
        purpose="write the JSON schemas of the parameter files",
        example="recap config schema --out workflow/schemas",
    )
    paths(parser, out="folder of the schemas")
    parser.set_defaults(function=schema)
