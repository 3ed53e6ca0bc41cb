"""``recap report claims``: which sentences of the papers hold in the runs that are finished."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from recap.cli.arguments import Arguments, add_params_folder, paths, spec, typed
from recap.cli.parser import Commands, command
from recap.core.errors import ConfigError

if TYPE_CHECKING:
    from recap.settings.specs import JudgedClaims


def add_claims(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands,
        "claims",
        _claims,
        purpose="judge each claim of the papers by the finished runs",
        example="""
            recap report claims
            recap report claims mine --scale photos --out claims
            recap report claims results/mine_photos
        """,
    )
    parser.add_argument(
        "papers", nargs="*", metavar="PAPER", help="papers, or folders results/<paper>_<scale> (default: all papers)"
    )
    parser.add_argument("--scale", metavar="NAME", help="scale (default: the first with scores, or else the first)")
    parser.add_argument(
        "--results", type=Path, default=Path("results"), metavar="FOLDER", help="folder of all results (results)"
    )
    add_params_folder(parser)
    given = parser.add_argument_group("in place of papers, as the workflow does it")
    spec(parser, "JudgedClaims", among=given)
    paths(given, "scores", required=False)
    parser.add_argument(
        "--out", type=Path, metavar="PATH", help="folder of claims.tex, .csv, .html and .md; of several papers one each"
    )


def _claims(a: Arguments) -> None:
    from recap.reporting.claims import claim_line, write_claims
    from recap.statistics.claims import judge_claims

    for paper, (asked, scores) in _asked(a).items():
        verdicts = judge_claims(asked, scores)
        for verdict in verdicts:
            print(claim_line(verdict, asked.scale))
        if a.out:
            write_claims(verdicts, asked.scale, a.out / paper)


def _asked(a: Arguments) -> dict[str, tuple[JudgedClaims, Path]]:
    """Return the claims that are judged and the folder of their scores, by what a folder is named after."""
    from recap.plan.claims import paper_claims, papers_with_claims

    if a.spec is not None:
        if a.papers or a.scale or a.scores is None:
            raise ConfigError("--spec has the claims of one profile; give --scores beside it, no paper and no scale")
        return {"": (typed(a, "JudgedClaims"), a.scores)}
    known = papers_with_claims(a.params)
    named = [_named(text, known, a) for text in a.papers or known]
    found = {paper: paper_claims(a.params, paper, scale=scale, results=results) for paper, scale, results in named}
    return {"": next(iter(found.values()))} if len(found) == 1 else found


def _named(text: str, known: list[str], a: Arguments) -> tuple[str, str | None, Path]:
    """Return paper, scale and folder of results that an argument means."""
    folder = Path(text)
    if text in known or not folder.is_dir():
        return text, a.scale, a.results
    paper, _, scale = folder.resolve().name.partition("_")
    return paper, scale, folder.resolve().parent
