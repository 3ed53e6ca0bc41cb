"""``recap report``: figures of trained models and of scores over a setting."""

from __future__ import annotations

from pathlib import Path

from recap.cli.arguments import Arguments, checked, chosen, paths, spec, typed
from recap.cli.parser import Commands, Parser, command
from recap.core.errors import ConfigError


def add_figures(commands: Commands) -> None:
    """Add the commands of figures to those of reports."""
    _add_figure(commands)
    _add_sweep(commands)


def _add_figure(commands: Commands) -> None:
    parser = command(
        commands,
        "figure",
        purpose="figure of trained models: of their attention, or of any other kind",
        example="""
            recap report figure --spec '{"kind": "attention", "count": 5}' --corpus corpus.parquet \\
              --vocabulary vocabulary.json --features features.h5 --images photos.zip \\
              --runs base run --labels Transformer Mine --out figures/mine
        """,
    )
    spec(parser, "TableFigure")
    begin = "begin of the files' paths: with figures/mine, attention.png becomes figures/mine_attention.png"
    paths(parser, "corpus", "vocabulary", "features", out=begin)
    add_images(parser, required=False)
    parser.add_argument("--runs", type=Path, nargs="+", required=True, metavar="PATH", help="run folders")
    parser.add_argument("--labels", nargs="+", required=True, metavar="NAME", help="names of the runs, one each")
    parser.add_argument("--heading", default="", metavar="TEXT", help="text above the figure")
    parser.set_defaults(function=_figure)


def _figure(a: Arguments) -> None:
    figure, runs, labels = typed(a, "TableFigure"), a.runs, a.labels
    if len(labels) != len(runs):
        raise ConfigError(f"{len(runs)} runs but {len(labels)} labels; give one label per run")
    if len(set(labels)) < len(labels):
        raise ConfigError(f"two runs have the same label ({', '.join(labels)}); give each its own")
    from recap.evaluation.figure import DrawnModels, write_figure

    files = chosen(a, "corpus vocabulary features heading")
    write_figure(figure, DrawnModels(dict(zip(labels, runs, strict=True)), image_roots=a.images, **files), a.out)


def _add_sweep(commands: Commands) -> None:
    parser = command(
        commands,
        "sweep",
        purpose="scores of several tables over a setting: a figure and a CSV",
        example="recap report sweep --spec spec.json --statistics statistics --out f7.csv --figure f7.png",
    )
    spec(parser, "Figure")
    paths(parser, statistics="folder results/<profile>/statistics", out="the CSV", figure="the PNG")
    parser.set_defaults(function=_sweep)


def _sweep(a: Arguments) -> None:
    settings = checked(a, "Figure")
    from recap.reporting.sweep import write_sweep
    from recap.settings.figures import Figure
    from recap.settings.params import validate

    figure = validate(Figure, settings, "figure")
    write_sweep(figure=figure, statistics=a.statistics, png=a.figure, out=a.out)


def add_images(parser: Parser, *, required: bool = True) -> None:
    """Add the option that says where the photos are."""
    parser.add_argument(
        "--images",
        type=Path,
        nargs="+",
        default=[],
        required=required,
        metavar="PATH",
        help="folders or zips with the photos",
    )
