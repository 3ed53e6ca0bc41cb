"""``recap report make`` and ``recap report docs``: all that a profile made, in one page."""

from __future__ import annotations

from recap.cli.arguments import Arguments, add_params_folder, paths
from recap.cli.parser import Commands, command


def add_make(commands: Commands) -> None:
    """Add the command that makes the page."""
    parser = command(
        commands,
        "make",
        _make,
        purpose="write one page (and a PDF, if LaTeX is installed) of all results, also while trainings run",
        example="""
            recap report make demo
            recap report make scenes
        """,
    )
    parser.add_argument("profile", help="name of a paper or profile (demo), or the YAML of a profile")
    parser.add_argument("--scale", metavar="NAME", help="a scale of the profile (default: `paper`, or its first)")
    parser.add_argument("--inputs", metavar="PATH", help="folder of the outside files (default: the profile's)")
    add_params_folder(parser)


def _make(a: Arguments) -> None:
    from recap.plan.named import named_plan
    from recap.profile_report.make import make_report

    plan = named_plan(a.params, a.profile, scale=a.scale, inputs=a.inputs)
    print(make_report(plan))


def add_docs(commands: Commands) -> None:
    """Add the command that writes pages of docs."""
    parser = command(
        commands,
        "docs",
        _docs,
        purpose="write a page of docs from the statistics of a paper's scales",
        example="""
            recap report docs demo --into docs/results
            recap report docs scenes --into docs/results
        """,
    )
    parser.add_argument("profile", help="name of a paper or profile (demo)")
    parser.add_argument(
        "--scale", nargs="+", default=[], metavar="NAME", help="scales of the profile, one section each"
    )
    paths(parser, into="folder of the page PROFILE.md, with a folder prose/ of paragraphs")
    add_params_folder(parser)


def _docs(a: Arguments) -> None:
    from recap.plan.named import named_plan
    from recap.profile_report.docs import write_docs

    plans = [named_plan(a.params, a.profile, scale=scale) for scale in a.scale or [None]]
    print(write_docs(a.profile, plans, a.into))
