"""Before a run: ``recap plan``, ``doctor``, ``rehearse``, ``params`` and ``config``."""

import json
import sys
from pathlib import Path
from typing import Annotated

from recap.cli.commands import Group, command
from recap.cli.options import Device, InputsFolder, print_columns, snakefile
from recap.core.errors import counted

MEASURED = "measured.json of the machine that it will run on: `recap measure`"
MEASURED_PLAN = "steps of this plan (default: of every kind, at its paper's sizes)"
SECTIONS = {
    "datasets": "captions and pictures",
    "subsets": "shares of the training captions",
    "features": "image features: extracted by recap, or imported",
    "language_models": "language models that stand in for GPT-2 at small scales",
    "models": (
        "models; the count is their parameters, where a paper or its code gives one to compare with"
    ),
    "recipes": "how a model is trained, decoded and scored",
    "scales": "replacements for data, sizes and recipes of tables",
    "tables": "tables, with the number of rows that are trained",
    "figures": "scores of several tables over one setting",
    "studies": "human studies",
}
SECTION = f"{', '.join(SECTIONS)} (default: list the sections)"

FOLDER = Path("params")
Scale = Annotated[str | None, "scale of the table (default: the table as it is)"]
Written = Annotated[Path | None, "write them there (default: print them)", "FILE"]

PARAMS = Group("params", "list and show parameter files")
CONFIG = Group("config", "check parameter files and write their schemas")


@command(
    "recap plan demo",
    "recap plan params/demo.yaml",
    "recap plan flickr8k --inputs data --measured measured.json",
)
def plan(
    profile: str,
    *,
    scale: str | None = None,
    inputs: InputsFolder = None,
    tflops: Annotated[
        float | None, "10^12 operations per second that a GPU sustains: an assumption", "N"
    ] = None,
    measured: Annotated[Path | None, MEASURED, "FILE"] = None,
    params: Path = FOLDER,
) -> None:
    """List what a paper needs: missing files and tools, disk, hours; runs nothing."""
    from recap.cli.doctor import plan_tools
    from recap.plan.costs import costs_of
    from recap.plan.profiles import named_plan
    from recap.plan.report import plan_report

    planned = named_plan(params, profile, scale=scale, inputs=inputs)
    costs = costs_of(planned, measured, tflops)
    costs.warn_of_short_trainings()
    measure = f"recap measure {profile}{f' --scale {scale}' if scale else ''}"
    print(plan_report(planned, costs, plan_tools(planned), measure))


@command("recap measure", "recap measure --tiny --device cpu")
def measure(
    profile: Annotated[str | None, MEASURED_PLAN] = None,
    *,
    scale: str | None = None,
    out: Annotated[Path, "file to write, for `recap plan --measured`"] = Path("measured.json"),
    device: Device = "auto",
    compiled: Annotated[bool, "compiled steps as well: minutes more for each kind"] = False,
    tiny: Annotated[
        bool, "models of the tests' size: a minute, only to see that everything works"
    ] = False,
    params: Path = FOLDER,
) -> None:
    """Measure seconds and memory of training and decoding steps on this machine; needs no data."""
    from recap.core.device import select_device
    from recap.measure.steps import write_steps
    from recap.plan.profiles import named_plan
    from recap.plan.workload import Workload

    shapes = (
        Workload(named_plan(params, profile, scale=scale, inputs=None)).shapes() if profile else []
    )
    steps = write_steps(
        out, device=select_device(device), tiny=tiny, compiled=compiled, shapes=shapes
    )
    print(f"{out}: {counted(steps, 'step')}")


@command("recap doctor", "recap doctor --folder /scratch")
def doctor(
    *, folder: Annotated[Path, "whose disk results go to (the current folder)"] = Path()
) -> None:
    """Check this machine: tools, versions, what is lost without each, how to get it."""
    from recap.cli.doctor import examine, report

    print(report(examine(folder)))


@command("recap rehearse mine", "recap rehearse mine --short --folder /data/try")
def rehearse(
    paper: Annotated[str, "folder of params/", "PAPER"],
    *,
    short: Annotated[bool, "not every row, but every rule"] = False,
    folder: Annotated[
        Path | None, "a new folder for all that is made (default: a temporary one)"
    ] = None,
    cores: Annotated[int, "jobs at once (2)"] = 2,
    params: Path = FOLDER,
) -> None:
    """Run a paper's whole workflow on miniatures of its data, in minutes."""
    from tempfile import mkdtemp

    from recap.core.files import write_text
    from recap.settings.kinds import resolve

    workflow = snakefile("a rehearsal")
    # the miniatures are test data, not part of the package
    sys.path.append(str(workflow.parent / "tests"))
    rehearsed = resolve("rehearsal.rehearse:rehearsed")
    folder = folder or Path(mkdtemp(prefix=f"recap-{paper}-"))
    text = rehearsed(
        paper, params=params, snakefile=workflow, folder=folder, short=short, cores=cores
    )
    write_text(folder / "summary.txt", f"{text}\n")
    print(text)


@PARAMS.command("recap params list", "recap params list models", name="list")
def list_files(
    section: Annotated[str | None, SECTION, {"choices": list(SECTIONS)}] = None,
    *,
    params: Path = FOLDER,
) -> None:
    """List the parameter files of a section: name, papers that use it, title."""
    from recap.plan.catalog import files_of, section_names

    if section is None:
        print_columns(
            [[name, str(len(section_names(params, name))), what] for name, what in SECTIONS.items()]
        )
    else:
        print_columns(files_of(params, section))


@PARAMS.command("recap params show mine/t3/wide --scale scenes")
def show(
    row: Annotated[str, "row of a table", "TABLE/ROW"],
    *,
    scale: Scale = None,
    params: Path = FOLDER,
) -> None:
    """Show every setting of a table row and the file that sets it."""
    from recap.plan.catalog import row_settings
    from recap.plan.profiles import row_config, unchecked_plan

    planned = unchecked_plan(row_config(params, row, scale=scale))
    resolved = planned.row(row)
    of_table = resolved.row
    subset = planned.settings.subset(of_table.subset)
    print(f"# {resolved.table}: {of_table.label}")
    for title, values in row_settings(planned, row).items():
        drawn = title == f"subsets/{of_table.subset}" and subset.fraction < 1
        print(f"{title}:{'  # one draw per seed' if drawn else ''}")
        for key, (value, source) in values.items():
            line = f"  {key}: {json.dumps(value)}"
            print(f"{line:40}  # {source}")


@CONFIG.command("recap config check params/demo.yaml")
def check(profile: Annotated[Path, "YAML of the profile"], *, params: Path = FOLDER) -> None:
    """Validate a profile, at each of its scales, and everything it names."""
    from recap.models.check import check_models
    from recap.plan.resolve import resolve
    from recap.plan.workload import Workload
    from recap.settings.params import load_profiles

    profiles = load_profiles(profile)
    for each in profiles:
        planned = resolve(each, params)
        check_models(planned)
        Workload(planned).warn_of_short_trainings()
        where = f"{profile} at scale {each.scale}" if len(profiles) > 1 else profile
        print(
            f"{where}: {counted(len(planned.tables), 'table')}, "
            f"{counted(len(planned.scored), 'scored run')}"
        )


@CONFIG.command("recap config tables")
def tables(*, params: Path = FOLDER) -> None:
    """List the tables, each with the profiles that make it."""
    from recap.settings.params import profiles_of_tables

    for name, profiles in profiles_of_tables(params).items():
        print(f"{name:28} {', '.join(profiles) or 'in no profile'}")


@CONFIG.command("recap config schema --out workflow/schemas")
def schema(*, out: Annotated[Path, "folder of the schemas"]) -> None:
    """Write the JSON schemas of the parameter files."""
    from recap.settings.params import write_schemas

    print("\n".join(map(str, write_schemas(out))))


@CONFIG.command("recap config identities --write tests/golden/identities.json")
def identities(*, params: Path = FOLDER, write: Written = None) -> None:
    """Show the hashes of parameters and digests of source that decide which finished runs rerun."""
    from recap.core.documents import write_json
    from recap.plan import source

    values = source.identities(params)
    if write is None:
        print(json.dumps(values, indent=2))
    else:
        write_json(write, values)
