"""``recap plan`` and ``recap doctor``: what a paper needs and costs, and what is on this machine."""

from __future__ import annotations

from pathlib import Path

from recap.cli.arguments import Arguments, add_params_folder
from recap.cli.parser import Commands, command

_MINUTES = 5.0


def add_plan(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands,
        "plan",
        purpose="list what a paper needs: missing files and tools, disk, steps, hours; runs nothing",
        example="""
            recap plan demo
            recap plan params/demo.yaml
            recap plan flickr8k --inputs data --time
        """,
    )
    parser.add_argument("profile", help="name of a paper or profile (demo), or the YAML of a profile")
    parser.add_argument("--scale", metavar="NAME", help="a scale of the profile (default: `paper`, or its first)")
    parser.add_argument("--inputs", metavar="PATH", help="folder of the outside files (default: the profile's)")
    parser.add_argument("--jobs", type=int, metavar="N", help="jobs at once (default: 1, 2, 4 and 8)")
    parser.add_argument(
        "--tflops", type=float, metavar="N", help="10^12 operations per second that a GPU sustains: an assumption"
    )
    parser.add_argument(
        "--time",
        type=float,
        nargs="?",
        const=_MINUTES,
        metavar="MINUTES",
        help=f"time steps at their true size on this machine first, for so many minutes ({_MINUTES:g}); "
        "kept in work/measured_steps.csv",
    )
    add_params_folder(parser)
    parser.set_defaults(function=plan)


def plan(a: Arguments) -> None:
    """Print the screen."""
    from recap.cost.report import costs_of, report
    from recap.cost.screen import screen
    from recap.cost.timing import time_steps
    from recap.plan.named import named_plan
    from recap.plan.step_costs import ASSUMED_TFLOPS, TIMED

    planned = named_plan(a.params, a.profile, scale=a.scale, inputs=a.inputs)
    costs = costs_of(planned)
    if a.time is not None:
        time_steps(costs, TIMED, device=planned.profile.execution.device, minutes=a.time)
        costs = costs_of(planned)
    print(screen(report(planned, costs, tflops=a.tflops or ASSUMED_TFLOPS), places=a.jobs))


def add_doctor(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands,
        "doctor",
        purpose="check this machine: tools, versions, what is lost without each, how to get it",
        example="""
            recap doctor
            recap doctor --folder /scratch
        """,
    )
    parser.add_argument(
        "--folder", type=Path, default=Path(), metavar="PATH", help="whose disk results go to (the current folder)"
    )
    parser.set_defaults(function=doctor)


def doctor(a: Arguments) -> None:
    """Print the screen."""
    from recap.core.errors import MissingFile
    from recap.cost.doctor import examine, screen

    if not a.folder.is_dir():
        raise MissingFile(f"{a.folder}: no such folder; name one on the disk that results go to")
    print(screen(examine(a.folder)))
