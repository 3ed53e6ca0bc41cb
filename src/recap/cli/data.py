"""``recap data``: captions, vocabularies, cards, subsets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recap.cli.arguments import Arguments, chosen, paths, spec
from recap.cli.fetch import add_fetch


def add_data(commands: Any) -> None:
    """Add the commands of this group."""

    def corpus(a: Arguments) -> None:
        from recap.data.build import build_corpus

        build_corpus(name=a.name, spec=a.spec, inputs=a.inputs, out=a.out)

    def vocabulary(a: Arguments) -> None:
        from recap.data.vocabulary import build_vocabulary

        built = build_vocabulary(corpus=a.corpus, rule=a.spec, inputs=a.inputs, out=a.out)
        print(f"{a.out}: {len(built)} ids, <pad>, <bos>, <eos> and <unk> among them")

    def card(a: Arguments) -> None:
        from recap.data.card import write_card

        write_card(name=a.name, corpus=a.corpus, counts=a.counts, out=a.out)

    def subset(a: Arguments) -> None:
        from recap.core.config import Subset
        from recap.core.params import validate
        from recap.data.subsample import draw_subset

        rule: Subset = validate(Subset, a.spec, f"subsets/{a.name}.yaml")
        draw_subset(corpus=a.corpus, name=a.name, fraction=rule.fraction, unit=rule.unit, seed=a.seed, out=a.out)

    add_fetch(commands)

    def conceptual(a: Arguments) -> None:
        from recap.data.conceptual_download import download

        settings = "tsv out edge workers tries limit pause rounds published"
        counts = download(**chosen(a, settings))
        print(json.dumps(counts, indent=1))

    def overlap(a: Arguments) -> None:
        from recap.data.overlap import check_overlap

        print(json.dumps(check_overlap(corpus=a.corpus, images=a.images)))

    parser = commands.add_parser("corpus", help="any data set -> corpus.parquet")
    parser.add_argument("--name", required=True)
    spec(parser)
    paths(parser, "inputs", "out")
    parser.set_defaults(function=corpus)
    parser = commands.add_parser("vocabulary", help="corpus -> vocabulary.json")
    spec(parser)
    paths(parser, "corpus", "out")
    parser.add_argument("--inputs", type=Path, default=Path(), help="folder of a byte-pair tokenizer's files")
    parser.set_defaults(function=vocabulary)
    parser = commands.add_parser("card", help="corpus -> card.md: counts, lengths, words")
    parser.add_argument("--name", required=True)
    paths(parser, "corpus", "out")
    parser.add_argument("--counts", type=Path, help="Markdown list of what was left out on the way to the corpus")
    parser.set_defaults(function=card)
    parser = commands.add_parser("subset", help="draw training captions")
    parser.add_argument("--name", required=True)
    parser.add_argument("--seed", type=int, required=True)
    spec(parser)
    paths(parser, "corpus", "out")
    parser.set_defaults(function=subset)
    parser = commands.add_parser("overlap", help="refuse a corpus whose splits share images")
    paths(parser, "corpus")
    parser.add_argument("--images", type=Path, nargs="+", default=[], help="folders or zips: compare pictures as well")
    parser.set_defaults(function=overlap)
    parser = commands.add_parser("conceptual-download", help="Conceptual Captions TSV -> pictures, survivors.parquet")
    paths(parser, "tsv", "out")
    parser.add_argument("--edge", type=int, default=384, help="largest shorter side of a stored picture in pixels")
    parser.add_argument("--workers", type=int, default=64, help="requests at once")
    parser.add_argument("--tries", type=int, default=3, help="requests a url in a round, where failure may pass")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds a request may take")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds before the second request; then doubled")
    parser.add_argument("--rounds", type=int, default=3, help="rounds over shards with many fresh failures")
    parser.add_argument("--published", type=Path, help="survivors.parquet of others: keep only pictures of its hashes")
    parser.set_defaults(function=conceptual)
