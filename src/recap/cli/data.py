"""``recap data``: captions, vocabularies, cards, subsets."""

from __future__ import annotations

import json
from pathlib import Path

from recap.cli.arguments import Arguments, calls, chosen, mapping, paths, spec, typed
from recap.cli.fetch import add_fetch
from recap.cli.parser import Commands, command


def add_data(commands: Commands) -> None:
    """Add the commands of this group."""
    add_fetch(commands)
    _add_corpus(commands)
    _add_vocabulary(commands)
    _add_card(commands)
    _add_subset(commands)
    _add_used(commands)
    _add_wanted(commands)
    _add_overlap(commands)
    _add_conceptual(commands)


def _add_corpus(commands: Commands) -> None:
    parser = command(
        commands,
        "corpus",
        purpose="convert any data set to corpus.parquet",
        example="""recap data corpus --name mine --inputs . --out results/mine \\
              --spec '{"kind": "karpathy", "annotations": "dataset.json", "images": ["photos"]}'
        """,
    )
    parser.add_argument("--name", required=True, help="name of the data set")
    spec(parser, "Dataset")
    paths(parser, "inputs", out="folder of corpus.parquet")
    parser.set_defaults(function=calls("recap.data.corpus.build:build_corpus", "name spec inputs out"))


def _add_vocabulary(commands: Commands) -> None:
    parser = command(
        commands,
        "vocabulary",
        purpose="build vocabulary.json from a corpus",
        example="""recap data vocabulary --corpus corpus.parquet --spec '{"min_count": 5}' --out vocabulary.json""",
    )
    spec(parser, "VocabularyConfig")
    paths(parser, "corpus", out="vocabulary.json")
    parser.add_argument(
        "--inputs", type=Path, default=Path(), metavar="PATH", help="folder of a byte-pair tokenizer's files"
    )
    parser.set_defaults(function=_vocabulary)


def _vocabulary(a: Arguments) -> None:
    from recap.data.vocabulary.words import build_vocabulary

    built = build_vocabulary(corpus=a.corpus, rule=a.spec, inputs=a.inputs, out=a.out)
    print(f"{a.out}: {len(built)} ids, <pad>, <bos>, <eos> and <unk> among them")


def _add_card(commands: Commands) -> None:
    parser = command(
        commands,
        "card",
        purpose="write card.md of a corpus: counts, lengths, words",
        example="recap data card --name mine --corpus corpus.parquet --out card.md",
    )
    parser.add_argument("--name", required=True, help="name of the data set")
    paths(parser, "corpus", out="the Markdown file")
    parser.add_argument(
        "--counts", type=Path, metavar="PATH", help="Markdown list of what was left out on the way to the corpus"
    )
    parser.set_defaults(function=calls("recap.data.corpus.card:write_card", "name corpus counts out"))


def _add_subset(commands: Commands) -> None:
    parser = command(
        commands,
        "subset",
        purpose="sample a subset of the training captions",
        example="""
            recap data subset --name pair_5 --seed 1 --spec '{"fraction": 0.05, "unit": "pair"}' \\
              --corpus corpus.parquet --out subset.json
        """,
    )
    parser.add_argument("--name", required=True, help="name of the subset")
    parser.add_argument("--seed", type=int, required=True, help="captions are drawn by it")
    spec(parser, "Subset")
    paths(parser, "corpus", out="JSON with the ids of the captions")
    parser.set_defaults(function=_subset)


def _subset(a: Arguments) -> None:
    from recap.data.subsets.subsample import draw_subset

    draw_subset(**typed(a, "Subset").model_dump(), **chosen(a, "corpus name seed out"))


def _add_used(commands: Commands) -> None:
    parser = command(
        commands,
        "used",
        purpose="list the images of some subsets; only these need features",
        example="recap data used --corpus corpus.parquet --subsets subset.json --out used.txt",
    )
    parser.add_argument("--subsets", type=Path, nargs="*", default=[], metavar="PATH", help="what `subset` wrote")
    parser.add_argument("--parts", nargs="*", default=[], metavar="NAME", help="folders whose pictures are all read")
    text = "corpus.parquet of the data set; of all data sets with its pictures, where they share a feature store"
    parser.add_argument("--corpus", type=Path, nargs="+", required=True, dest="corpora", metavar="PATH", help=text)
    paths(parser, out="image ids, one a line")
    parser.set_defaults(function=calls("recap.data.subsets.used:write_used", "corpora subsets parts out"))


def _add_wanted(commands: Commands) -> None:
    parser = command(
        commands,
        "wanted",
        purpose="list the rows of a TSV of web pictures that some subsets need, for `conceptual-download --only`",
        example="""
            recap data wanted --tsv GCC-training.tsv --out wanted.txt \\
              --draws '{"conceptual": {"held_out": 5000, "seed": 0, "survival": 0.6, "draws": []}}'
        """,
    )
    parser.add_argument(
        "--draws", type=mapping, required=True, metavar="JSON", help="data set -> what is drawn from the TSV, or a file"
    )
    paths(parser, tsv="one caption TAB url a line", out="numbers of rows, one a line")
    parser.set_defaults(function=_wanted)


def _wanted(a: Arguments) -> None:
    from recap.data.datasets.conceptual.tsv import count_rows
    from recap.data.subsets.wanted import WebDraws, write_wanted
    from recap.settings.params import validate

    write_wanted(validate(dict[str, WebDraws], a.draws, "--draws"), rows=count_rows(a.tsv), out=a.out)


def _add_overlap(commands: Commands) -> None:
    parser = command(
        commands,
        "overlap",
        purpose="check that the splits of a corpus share no image",
        example="recap data overlap --corpus corpus.parquet --images photos.zip",
    )
    paths(parser, "corpus")
    parser.add_argument(
        "--images", type=Path, nargs="+", default=[], metavar="PATH", help="folders or zips: compare pictures as well"
    )
    parser.set_defaults(function=_overlap)


def _overlap(a: Arguments) -> None:
    from recap.data.corpus.overlap import check_overlap

    print(json.dumps(check_overlap(corpus=a.corpus, images=a.images)))


def _add_conceptual(commands: Commands) -> None:
    parser = command(
        commands,
        "conceptual-download",
        purpose="download the pictures of a Conceptual Captions TSV",
        example="recap data conceptual-download --tsv GCC-1.1.0-Validation.tsv --out conceptual/images/validation",
    )
    paths(parser, tsv="captions and urls, as published", out="folder of the pictures")
    side = "shorter side that larger pictures get, in pixels; 0: their own (384)"
    parser.add_argument("--min-side", type=int, default=384, metavar="N", help=side)
    parser.add_argument("--workers", type=int, default=64, metavar="N", help="requests at once (64)")
    parser.add_argument("--timeout", type=float, default=30.0, metavar="S", help="seconds per request (30)")
    paths(
        parser,
        required=False,
        only="list of rows, a number per line from 0: fetch no others",
        published="survivors.parquet of others: keep only pictures of its hashes",
    )
    parser.set_defaults(function=_download)


def _download(a: Arguments) -> None:
    from recap.data.datasets.conceptual.download import download

    names = "tsv out min_side workers timeout published only"
    print(json.dumps(download(**chosen(a, names)), indent=1))
