"""``recap params``: what the parameter files name, and what a row of a table comes to."""

from __future__ import annotations

import json
from pathlib import Path

from recap.cli.arguments import Arguments
from recap.cli.parser import Commands, Parser, command

SECTIONS = ("datasets", "features", "figures", "models", "recipes", "scales", "subsets", "tables")


def add_params(commands: Commands) -> None:
    """Add the commands of this group."""
    parser = command(
        commands, "list", purpose="the names of the parameter files of a section", example="recap params list models"
    )
    parser.add_argument("section", choices=SECTIONS, help=", ".join(SECTIONS))
    _add_folder(parser)
    parser.set_defaults(function=list_names)
    parser = command(
        commands,
        "show",
        purpose="what a row of a table trains, complete, and where each value comes from",
        example="recap params show xlan/t3/enc2 --scale scenes",
    )
    parser.add_argument("row", metavar="TABLE/ROW", help="row of a table")
    parser.add_argument("--scale", metavar="NAME", help="scale of the table (default: the table as it is)")
    _add_folder(parser)
    parser.set_defaults(function=show)


def _add_folder(parser: Parser) -> None:
    parser.add_argument(
        "--params", type=Path, default=Path("params"), metavar="PATH", help="folder of the parameter files (params)"
    )


def list_names(a: Arguments) -> None:
    """Print the names of a section, as rows and profiles name them."""
    folder = a.params / a.section
    for path in sorted(folder.rglob("*.yaml")):
        print(path.relative_to(folder).with_suffix("").as_posix())


def show(a: Arguments) -> None:
    """Print the settings of a row as YAML, with the source of each value as a comment."""
    from recap.core.by_hand import plan_of_row

    plan = plan_of_row(a.params, a.row, a.scale, seed=1)
    table, row = plan.row(a.row)
    print(f"# {table}: {row.label}, stage {row.stage}")
    parts = [("datasets", row.dataset), ("subsets", row.subset)]
    parts += [("features", name) for name in plan.feature_names(row.features)]
    for section, name in [*parts, ("models", row.model), ("recipes", row.recipe)]:
        print(f"{section}/{name}:")
        values = plan.resolve_with_sources(section, name)
        lines = [(f"  {key}: {json.dumps(value)}", source) for key, (value, source) in values.items()]
        width = max((len(line) for line, _ in lines if len(line) <= 60), default=0)
        for line, source in lines:
            print(f"{line:{width}}  # {source}")
