"""``recap study``: human studies, from test captions to forms, and from responses to tables."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from recap.cli.commands import Group
from recap.cli.options import PARAMS, Paths
from recap.core.errors import ConfigError

STUDY = Group("study", "run human studies: forms, responses, tables")

RESPONSES = "files or folders: .json of pages, .csv of a crowd platform or typed from paper"
SHARES = (
    "expected share of votes of each system, or of no of each model (default: the smallest effect "
    "found)"
)

NAME = "name of a study, such as recap/objects"
Sheets = Annotated[Path, "sheets.json, as `recap study sheets` wrote it"]


def _captions(text: str) -> tuple[tuple[str, str], Path]:
    """Return ``((setup, system), file)`` of ``SETUP/SYSTEM=FILE``."""
    names, equals, file = text.partition("=")
    setup, slash, system = names.partition("/")
    if not (equals and slash and file):
        raise argparse.ArgumentTypeError(f"{text!r} is not SETUP/SYSTEM=FILE")
    return (setup, system), Path(file)


CAPTIONS = "captions of the test split of each setup and system that is a model"


@STUDY.command(
    """
        recap study sheets --study recap/preference --corpus corpus.parquet \\
          --images photos.zip --out study \\
          --captions demo/transformer=a/captions.test.json demo/wide=b/captions.test.json
    """,
    name="sheets",
    spec="specs:StudySpec",
)
def make_sheets(
    *,
    study: Annotated[str | None, NAME] = None,
    spec: Any = None,
    params: Path = PARAMS,
    captions: Annotated[Sequence[Any], CAPTIONS, "SETUP/SYSTEM=FILE", {"type": _captions}],
    corpus: Path,
    images: Paths,
    out: Annotated[
        Path, "folder of sheets.json, pages.zip, pictures.zip, batch.csv, template.html, gold.md"
    ],
) -> None:
    """Sample images and write the forms of all raters."""
    from recap.settings.params import load_named
    from recap.settings.specs import StudySpec
    from recap.studies.make import make_study

    if (study is None) == (spec is None):
        raise ConfigError("give one of --study and --spec")
    chosen = spec or StudySpec(name=study, study=load_named(params, "studies", str(study)))
    make_study(**dict(chosen), captions=dict(captions), corpus=corpus, images=images, out=out)


@STUDY.command(
    "recap study simulate --sheets study/sheets.json --out simulated.json",
    calls="recap.studies.responses:simulate",
)
def simulate(*, sheets: Sheets, out: Annotated[Path, "the JSON with all responses"]) -> None:
    """Simulate responses, to try a study."""


@STUDY.command(
    "recap study import --sheets study/sheets.json --responses responses/ --out responses.json",
    name="import",
    calls="recap.studies.responses:import_responses",
)
def import_(
    *,
    sheets: Sheets,
    out: Annotated[Path, "the JSON that `recap study analyse` reads"],
    responses: Annotated[Paths, RESPONSES],
) -> None:
    """Collect and check the responses of all raters, and list excluded raters with the rule."""


@STUDY.command(
    """
        recap study analyse --sheets study/sheets.json --responses responses.json \\
          --statistics study.json --name preference --out tables
    """,
    calls="recap.studies.tables:analyse_study",
)
def analyse(
    *,
    sheets: Sheets,
    responses: Annotated[Path, "what `recap study import` wrote"],
    statistics: Annotated[Path, "the JSON of all numbers, to be written"],
    out: Annotated[Path, "folder of the tables NAME.tex, .csv, .html, .md"],
    name: Annotated[str, "name of the tables (table)"] = "table",
) -> None:
    """Compute votes, intervals, chi-square and agreement, and write the table."""


@STUDY.command("recap study power --study recap/preference --shares 0.172 0.244 0.220 0.364")
def power(
    *,
    study: Annotated[str, NAME],
    params: Path = PARAMS,
    shares: Annotated[Sequence[float], SHARES, "SHARE"] = (),
) -> None:
    """Compute the power of a study's chi-square test before it starts."""
    from recap.settings.params import load_named
    from recap.studies.analysis import study_power

    print(study_power(load_named(params, "studies", study), list(shares)))
