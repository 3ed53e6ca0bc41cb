"""``recap study``: human studies, from test captions to forms, and from responses to tables."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import Any

from recap.cli.arguments import Arguments, add_params_folder, calls, paths, spec, typed
from recap.cli.parser import Commands, Parser, command
from recap.core.errors import counted

SHEETS = "sheets.json, as `recap study sheets` wrote it"


def add_study(commands: Commands) -> None:
    """Add the commands of this group."""
    _add_sheets(commands)
    _add_print(commands)
    _add_serve(commands)
    _add_simulate(commands)
    _add_import(commands)
    _add_analyse(commands)
    _add_power(commands)


def _add_study(parser: Parser) -> None:
    """Add the options that name a study."""
    one = parser.add_mutually_exclusive_group(required=True)
    one.add_argument("--study", metavar="NAME", help="name of a study, such as recap/objects")
    spec(parser, "StudySpec", among=one)
    add_params_folder(parser)


def _study(a: Arguments) -> Any:
    """Return the study that the options name, with its name and scale."""
    from recap.settings.params import load_named
    from recap.settings.specs import StudySpec

    if a.spec is not None:
        return typed(a, "StudySpec")
    return StudySpec(name=a.study, study=load_named(a.params, "studies", a.study))


def _captions(text: str) -> tuple[tuple[str, str], Path]:
    """Return ``((setup, system), file)`` of ``SETUP/SYSTEM=FILE``."""
    names, equals, file = text.partition("=")
    setup, slash, system = names.partition("/")
    if not (equals and slash and file):
        raise argparse.ArgumentTypeError(f"{text!r} is not SETUP/SYSTEM=FILE")
    return (setup, system), Path(file)


def _add_sheets(commands: Commands) -> None:
    parser = command(
        commands,
        "sheets",
        _sheets,
        purpose="sample images and write the forms of all raters",
        example="""
            recap study sheets --study recap/preference --corpus corpus.parquet --images photos.zip --out study \\
              --captions demo/transformer=a/captions.test.json demo/wide=b/captions.test.json
        """,
    )
    _add_study(parser)
    parser.add_argument(
        "--captions",
        type=_captions,
        nargs="+",
        required=True,
        metavar="SETUP/SYSTEM=FILE",
        help="captions of the test split of each setup and system that is a model",
    )
    paths(
        parser,
        "corpus",
        "images",
        out="folder of sheets.json, pages.zip, pictures.zip, batch.csv, template.html, gold.md",
    )


def _sheets(a: Arguments) -> None:
    asked = _study(a)
    from recap.studies.make import make_study

    make_study(
        name=asked.name,
        study=asked.study,
        scale=asked.scale,
        captions=dict(a.captions),
        corpus=a.corpus,
        images=a.images,
        out=a.out,
    )


def _add_print(commands: Commands) -> None:
    parser = command(
        commands,
        "print",
        calls("recap.studies.pdf:print_page", "page out"),
        purpose="print a page to PDF with an installed browser",
        example="recap study print --page pages/001.html --out 001.pdf",
    )
    paths(parser, page="page of a rater, from pages.zip", out="the PDF")


def _add_serve(commands: Commands) -> None:
    parser = command(
        commands,
        "serve",
        _serve,
        purpose="serve forms to raters on 127.0.0.1 and store their responses",
        example="""
            recap study serve --sheets study/sheets.json --responses responses/server.sqlite --links links.csv
        """,
    )
    paths(
        parser,
        sheets=f"{SHEETS}; pictures.zip lies beside it",
        responses="SQLite file of the responses (.sqlite); made if missing",
        links="CSV of the raters' links with their secret tokens; made if missing",
    )
    parser.add_argument("--port", type=int, default=8765, metavar="N", help="port (8765)")
    parser.add_argument(
        "--address", metavar="URL", help="public address of a proxy that passes requests on (http://127.0.0.1:PORT)"
    )


def _serve(a: Arguments) -> None:
    from recap.core.errors import ConfigError
    from recap.core.log import log
    from recap.settings.studies import PLACEHOLDER
    from recap.studies.pictures import read_pictures
    from recap.studies.server import links, make_app, public_host, serve
    from recap.studies.sheets import read_sheets
    from recap.studies.store import Store

    if a.responses.suffix != ".sqlite":
        raise ConfigError(f"--responses {a.responses}: name a file that ends in .sqlite, by which `import` knows it")
    sheets = read_sheets(a.sheets)
    sheets.study.check_contact()
    if sheets.study.contact == PLACEHOLDER:
        log.warning("The consent text names nobody. This is a trial: set `contact` before people are asked.")
    address = (a.address or f"http://127.0.0.1:{a.port}").rstrip("/")
    host = public_host(address)
    pictures = read_pictures(a.sheets.parent / "pictures.zip", sheets.pictures)
    tokens = links(sheets, a.links, address)
    print(f"{counted(len(tokens), 'link')}: {a.links}")
    with closing(Store(a.responses)) as store:
        serve(make_app(sheets, pictures, tokens, store, host), a.port)


def _add_simulate(commands: Commands) -> None:
    parser = command(
        commands,
        "simulate",
        _simulate,
        purpose="simulate responses, to try a study",
        example="recap study simulate --sheets study/sheets.json --out simulated.json",
    )
    paths(parser, sheets=SHEETS, out="the JSON with all responses")


def _simulate(a: Arguments) -> None:
    from recap.studies.sheets import read_sheets
    from recap.studies.simulated import simulate

    simulate(read_sheets(a.sheets), a.out)


def _add_import(commands: Commands) -> None:
    parser = command(
        commands,
        "import",
        _import,
        purpose="collect and check the responses of all raters, and list excluded raters with the rule",
        example="recap study import --sheets study/sheets.json --responses responses/ --out responses.json",
    )
    paths(parser, sheets=SHEETS, out="the JSON that `recap study analyse` reads")
    parser.add_argument(
        "--responses",
        type=Path,
        nargs="+",
        required=True,
        metavar="PATH",
        help="files or folders: .json of pages, .sqlite of the server, .csv of a crowd platform or typed from paper",
    )


def _import(a: Arguments) -> None:
    from recap.studies.collect import import_responses
    from recap.studies.sheets import read_sheets

    import_responses(sheets=read_sheets(a.sheets), paths=a.responses, out=a.out)


def _add_analyse(commands: Commands) -> None:
    parser = command(
        commands,
        "analyse",
        _analyse,
        purpose="compute votes, intervals, chi-square and agreement, and write the table",
        example="""
            recap study analyse --sheets study/sheets.json --responses responses.json --statistics study.json \\
              --name preference --out tables
        """,
    )
    paths(
        parser,
        sheets=SHEETS,
        responses="what `recap study import` wrote",
        statistics="the JSON of all numbers, to be written",
        out="folder of the tables NAME.tex, .csv, .html, .md",
    )
    parser.add_argument("--name", default="table", metavar="NAME", help="name of the tables (table)")


def _analyse(a: Arguments) -> None:
    from recap.core import checksums
    from recap.core.documents import write_json
    from recap.studies.analysis import analyse
    from recap.studies.collect import read_collected
    from recap.studies.sheets import read_sheets
    from recap.studies.tables import write_study_table

    sheets = read_sheets(a.sheets)
    statistics = analyse(sheets, read_collected(a.responses, sheets))
    write_json(a.statistics, statistics)
    checksums.record(a.statistics)
    write_study_table(name=a.name, sheets=sheets, statistics=statistics, out=a.out)


def _add_power(commands: Commands) -> None:
    parser = command(
        commands,
        "power",
        _power,
        purpose="compute the power of a study's chi-square test before it starts",
        example="recap study power --study recap/preference --shares 0.172 0.244 0.220 0.364",
    )
    _add_study(parser)
    parser.add_argument(
        "--shares",
        type=float,
        nargs="+",
        default=[],
        metavar="SHARE",
        help="expected share of votes of each system, or of no of each model (default: the smallest effect found)",
    )


def _power(a: Arguments) -> None:
    from recap.studies.power import power_text

    print(power_text(_study(a).study, a.shares))
