"""``recap params``: what the parameter files name, and what a row of a table comes to."""

from __future__ import annotations

import json

from recap.cli.arguments import Arguments, add_params_folder
from recap.cli.parser import Commands, command

SECTIONS = {
    "datasets": "captions and pictures",
    "subsets": "shares of the training captions",
    "features": "image features: extracted by recap, or imported",
    "language_models": "language models that stand in for GPT-2 at small scales",
    "models": "models; the count is their parameters, where a paper or its code gives one to compare with",
    "recipes": "how a model is trained, decoded and scored",
    "scales": "replacements for data, sizes and recipes of tables",
    "tables": "tables, with the number of rows that are trained",
    "figures": "scores of several tables over one setting",
    "studies": "human studies",
}


def add_params(commands: Commands) -> None:
    """Add the commands of this group."""
    parser = command(
        commands,
        "list",
        list_files,
        purpose="list the parameter files of a section: name, papers that use it, title",
        example="""
            recap params list
            recap params list models
        """,
    )
    parser.add_argument(
        "section", nargs="?", choices=SECTIONS, help=f"{', '.join(SECTIONS)} (default: list the sections)"
    )
    add_params_folder(parser)
    parser = command(
        commands,
        "show",
        show,
        purpose="show every setting of a table row and the file that sets it",
        example="recap params show mine/t3/wide --scale scenes",
    )
    parser.add_argument("row", metavar="TABLE/ROW", help="row of a table")
    parser.add_argument("--scale", metavar="NAME", help="scale of the table (default: the table as it is)")
    add_params_folder(parser)


def list_files(a: Arguments) -> None:
    """Print the files of a section in columns, or the sections."""
    from recap.plan.catalog import files_of, section_names

    if a.section is None:
        print_columns([[name, str(len(section_names(a.params, name))), what] for name, what in SECTIONS.items()])
    else:
        print_columns([[each.name, each.papers, each.size, each.title] for each in files_of(a.params, a.section)])


def print_columns(rows: list[list[str]]) -> None:
    """Print rows with aligned columns; a column without any text is left out."""
    widths = [max(map(len, column), default=0) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True) if width).rstrip())


def show(a: Arguments) -> None:
    """Print the settings of a row as YAML, with the source of each value as a comment."""
    from recap.plan.load import unchecked_plan
    from recap.plan.row_settings import row_settings
    from recap.plan.single_run import row_config

    plan = unchecked_plan(row_config(a.params, a.row, scale=a.scale))
    table, row = plan.row(a.row)
    print(f"# {table}: {row.label}")
    for title, values in row_settings(plan, a.row).items():
        drawn = title == f"subsets/{row.subset}" and plan.get("subsets", row.subset).fraction < 1
        print(f"{title}:{'  # one draw per seed' if drawn else ''}")
        lines = [(f"  {key}: {json.dumps(value)}", source) for key, (value, source) in values.items()]
        # Sources are aligned beside the shorter values.
        width = max((len(line) for line, _ in lines if len(line) <= 60), default=0)
        for line, source in lines:
            print(f"{line:{width}}  # {source}")
