"""``recap data``: captions, vocabularies, cards, subsets."""

from __future__ import annotations

import json
from pathlib import Path

from recap.cli.arguments import Arguments, checked, chosen, paths, spec
from recap.cli.fetch import add_fetch
from recap.cli.parser import Commands, command


def add_data(commands: Commands) -> None:
    """Add the commands of this group."""

    def corpus(a: Arguments) -> None:
        from recap.data.corpus.build import build_corpus

        build_corpus(name=a.name, spec=a.spec, inputs=a.inputs, out=a.out)

    def vocabulary(a: Arguments) -> None:
        from recap.data.vocabulary.words import build_vocabulary

        built = build_vocabulary(corpus=a.corpus, rule=a.spec, inputs=a.inputs, out=a.out)
        print(f"{a.out}: {len(built)} ids, <pad>, <bos>, <eos> and <unk> among them")

    def card(a: Arguments) -> None:
        from recap.data.corpus.card import write_card

        write_card(name=a.name, corpus=a.corpus, counts=a.counts, out=a.out)

    def subset(a: Arguments) -> None:
        from recap.data.subsets.subsample import draw_subset

        draw_subset(**checked(a, "Subset"), **chosen(a, "corpus name seed out"))

    add_fetch(commands)

    def overlap(a: Arguments) -> None:
        from recap.data.corpus.overlap import check_overlap

        print(json.dumps(check_overlap(corpus=a.corpus, images=a.images)))

    parser = command(
        commands,
        "corpus",
        purpose="any data set -> corpus.parquet",
        example="""recap data corpus --name mine --inputs . --out results/mine \\
              --spec '{"kind": "karpathy", "annotations": "dataset.json", "images": ["photos"]}'
        """,
    )
    parser.add_argument("--name", required=True, help="name of the data set")
    spec(parser, "Dataset")
    paths(parser, "inputs", out="folder of corpus.parquet")
    parser.set_defaults(function=corpus)
    parser = command(
        commands,
        "vocabulary",
        purpose="corpus -> vocabulary.json",
        example="""recap data vocabulary --corpus corpus.parquet --spec '{"min_count": 5}' --out vocabulary.json""",
    )
    spec(parser, "VocabularyConfig")
    paths(parser, "corpus", out="vocabulary.json")
    parser.add_argument(
        "--inputs", type=Path, default=Path(), metavar="PATH", help="folder of a byte-pair tokenizer's files"
    )
    parser.set_defaults(function=vocabulary)
    parser = command(
        commands,
        "card",
        purpose="corpus -> card.md: counts, lengths, words",
        example="recap data card --name mine --corpus corpus.parquet --out card.md",
    )
    parser.add_argument("--name", required=True, help="name of the data set")
    paths(parser, "corpus", out="the Markdown file")
    parser.add_argument(
        "--counts", type=Path, metavar="PATH", help="Markdown list of what was left out on the way to the corpus"
    )
    parser.set_defaults(function=card)
    parser = command(
        commands,
        "subset",
        purpose="draw training captions",
        example="""
            recap data subset --name pair_5 --seed 1 --spec '{"fraction": 0.05, "unit": "pair"}' \\
              --corpus corpus.parquet --out subset.json
        """,
    )
    parser.add_argument("--name", required=True, help="name of the subset")
    parser.add_argument("--seed", type=int, required=True, help="captions are drawn by it")
    spec(parser, "Subset")
    paths(parser, "corpus", out="JSON with the ids of the captions")
    parser.set_defaults(function=subset)
    parser = command(
        commands,
        "overlap",
        purpose="refuse a corpus whose splits share images",
        example="recap data overlap --corpus corpus.parquet --images photos.zip",
    )
    paths(parser, "corpus")
    parser.add_argument(
        "--images", type=Path, nargs="+", default=[], metavar="PATH", help="folders or zips: compare pictures as well"
    )
    parser.set_defaults(function=overlap)
    _add_conceptual(commands)


def _add_conceptual(commands: Commands) -> None:
    def download(a: Arguments) -> None:
        from recap.data.datasets.conceptual.download import download as run

        print(json.dumps(run(**chosen(a, "tsv out edge workers tries limit pause rounds published")), indent=1))

    parser = command(
        commands,
        "conceptual-download",
        purpose="Conceptual Captions TSV -> pictures, survivors.parquet",
        example="recap data conceptual-download --tsv GCC-1.1.0-Validation.tsv --out conceptual/images/validation",
    )
    paths(parser, tsv="captions and urls, as published", out="folder of the pictures")
    parser.add_argument("--edge", type=int, default=384, help="pixels of a stored picture's shorter side at most (384)")
    parser.add_argument("--workers", type=int, default=64, help="requests at once (64)")
    parser.add_argument("--tries", type=int, default=3, help="requests a url in a round, where failure may pass (3)")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds a request may take (30)")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds before the second request; then doubled (1)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds over shards with many fresh failures (3)")
    parser.add_argument(
        "--published", type=Path, metavar="PATH", help="survivors.parquet of others: keep only pictures of its hashes"
    )
    parser.set_defaults(function=download)
