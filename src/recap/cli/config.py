"""``recap config``: check parameter files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recap.cli.arguments import Arguments, paths


def add_config(commands: Any) -> None:
    """Add the commands of this group."""

    def check(a: Arguments) -> None:
        from recap.core.grid import Grid
        from recap.core.params import load_profile, read_mapping
        from recap.models.check import check_models

        grid = Grid(load_profile(read_mapping(a.profile), str(a.profile)), a.params)
        check_models(grid)
        print(f"{a.profile}: {len(grid.tables)} tables, {len(grid.scored())} scored runs")

    def schema(a: Arguments) -> None:
        from recap.core.schema import write_schemas

        for path in write_schemas(a.out):
            print(path)

    parser = commands.add_parser("check", help="validate a profile and everything it names")
    parser.add_argument("profile", type=Path)
    parser.add_argument("--params", type=Path, default=Path("params"))
    parser.set_defaults(function=check)
    parser = commands.add_parser("schema", help="write the JSON schemas of the parameter files")
    paths(parser, "out")
    parser.set_defaults(function=schema)
