"""``recap report``: figures of what models look at and of scores over a setting."""

from __future__ import annotations

from pathlib import Path

from recap.cli.arguments import Arguments, checked, chosen, paths, spec
from recap.cli.parser import Commands, Parser, command


def add_figures(commands: Commands) -> None:
    """Add the commands of figures to those of reports."""
    _add_attention(commands)
    _add_gates(commands)
    _add_clusters(commands)
    _add_alignment(commands)
    _add_other_images(commands)
    _add_sweep(commands)


def _add_attention(commands: Commands) -> None:
    parser = command(
        commands,
        "attention",
        purpose="figure of the attention weights behind each token of a caption",
        example="""
            recap report attention --corpus corpus.parquet --vocabulary vocabulary.json --features features.h5 \\
              --images photos.zip --runs run --labels ZoDIAC --out attention.png
        """,
    )
    paths(parser, "corpus", "vocabulary", "features", out="the figure")
    add_images(parser)
    _add_runs(parser)
    _add_shown(parser)
    parser.set_defaults(function=_attention)


def _attention(a: Arguments) -> None:
    from recap.evaluation.attention_figure import write_attention_figure

    given = "corpus vocabulary features runs labels image_ids count beam heading out"
    write_attention_figure(image_roots=a.images, **chosen(a, given))


def _add_gates(commands: Commands) -> None:
    parser = command(
        commands,
        "gates",
        purpose="figures of VisualGPT's gates behind the words of its test captions",
        example="""
            recap report gates --corpus corpus.parquet --vocabulary vocabulary.json --features features.h5 \\
              --images photos.zip --run run --name t1 --out figures
        """,
    )
    paths(parser, "corpus", "vocabulary", "features", run="run folder of a VisualGPT", out="folder of the figures")
    add_images(parser)
    parser.add_argument("--name", required=True, help="begins the names of the figures")
    parser.add_argument("--heading", default="", metavar="TEXT", help="text above the figures")
    parser.add_argument("--count", type=int, default=10, help="captions that are shown beside their images (10)")
    parser.add_argument("--beam", type=int, default=3, help="beam size of the search (3)")
    parser.set_defaults(function=_gates)


def _gates(a: Arguments) -> None:
    from recap.papers.visualgpt.gates import write_gates_figures

    given = "corpus vocabulary features run name count beam heading out"
    write_gates_figures(image_roots=a.images, **chosen(a, given))


def _add_clusters(commands: Commands) -> None:
    parser = command(
        commands,
        "clusters",
        purpose="figure of the clusters of patches and words in each layer, and their trees",
        example="""
            recap report clusters --corpus corpus.parquet --vocabulary vocabulary.json --features features.h5 \\
              --images photos.zip --runs base run --labels BASE ACF --layers 1 3 5 6 --out clusters.png
        """,
    )
    paths(parser, "corpus", "vocabulary", "features", out="the figure; the trees are beside it, as .json")
    add_images(parser)
    _add_runs(parser)
    _add_shown(parser)
    parser.add_argument("--layers", type=int, nargs="+", metavar="N", help="layers to draw, from 1 (default: all)")
    parser.add_argument(
        "--threshold", type=float, default=0.5, help="value of C from which neighbors are one cluster (0.5)"
    )
    parser.add_argument(
        "--untrained", action="store_true", help="beside each model itself with random weights: what was not learnt"
    )
    parser.set_defaults(function=_clusters)


def _clusters(a: Arguments) -> None:
    from recap.papers.acf.clusters_figure import write_clusters_figure

    given = "corpus vocabulary features runs labels image_ids count beam layers threshold heading untrained out"
    write_clusters_figure(image_roots=a.images, **chosen(a, given))


def _add_alignment(commands: Commands) -> None:
    parser = command(
        commands,
        "alignment",
        purpose="how well the words and the patches of trained models find each other",
        example="""
            recap report alignment --corpus corpus.parquet --vocabulary vocabulary.json --features features.h5 \\
              --runs base run --labels BASE ACF --out alignment.json
        """,
    )
    paths(parser, "corpus", "vocabulary", "features", out="the JSON")
    _add_runs(parser)
    parser.add_argument("--split", choices=["val", "test"], default="test", help="images (test)")
    parser.add_argument("--beam", type=int, default=3, help="beam size of the search (3)")
    parser.set_defaults(function=_alignment)


def _alignment(a: Arguments) -> None:
    from recap.papers.acf.alignment import write_alignment

    write_alignment(**chosen(a, "corpus vocabulary features runs labels split beam out"))


def _add_other_images(commands: Commands) -> None:
    parser = command(
        commands,
        "other-images",
        purpose="whether models look: the loss of references with their own images and with others",
        example="""
            recap report other-images --corpus corpus.parquet --vocabulary vocabulary.json --features features.h5 \\
              --runs run --labels Transformer --out other_images.json
        """,
    )
    paths(parser, "corpus", "vocabulary", "features", out="the JSON")
    _add_runs(parser)
    parser.add_argument("--split", choices=["val", "test"], default="test", help="images (test)")
    parser.set_defaults(function=_other_images)


def _other_images(a: Arguments) -> None:
    from recap.evaluation.other_images import write_other_images

    write_other_images(**chosen(a, "corpus vocabulary features runs labels split out"))


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


def _add_runs(parser: Parser) -> None:
    parser.add_argument("--runs", type=Path, nargs="+", required=True, metavar="PATH", help="run folders")
    parser.add_argument("--labels", nargs="+", required=True, metavar="NAME", help="names of the runs, one each")


def _add_shown(parser: Parser) -> None:
    parser.add_argument("--heading", default="", metavar="TEXT", help="text above the figure")
    parser.add_argument(
        "--image-ids",
        type=int,
        nargs="+",
        metavar="ID",
        help="images (default: some of the test split, the same each time)",
    )
    parser.add_argument("--count", type=int, default=3, help="number of test images where none are named (3)")
    parser.add_argument("--beam", type=int, default=3, help="beam size of the search (3)")


def add_images(parser: Parser) -> None:
    """Add the option that says where the photos are."""
    parser.add_argument(
        "--images", type=Path, nargs="+", required=True, metavar="PATH", help="folders or zips with the photos"
    )
