"""``recap features``: feature stores."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from recap.cli.arguments import Arguments, chosen, paths, spec


def add_features(commands: Any) -> None:
    """Add the commands of this group."""

    def extract(a: Arguments) -> None:
        from recap.core.config import GridFeatures
        from recap.core.params import validate
        from recap.features.grid import extract_grid

        spec: GridFeatures = validate(GridFeatures, a.spec, "features")
        extract_grid(spec=spec, **chosen(a, "corpus images inputs trained device threads shards out"))

    def pretrain(a: Arguments) -> None:
        from recap.core.config import GridFeatures
        from recap.core.params import validate
        from recap.features.pretrain import pretrain_backbone

        spec: GridFeatures = validate(GridFeatures, a.spec, "features")
        pretrain_backbone(spec=spec, **chosen(a, "boxes images device threads out"))

    def info(a: Arguments) -> None:
        from recap.features.info import info as describe

        print(describe(a.file))

    def pictures(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--images", type=Path, nargs="+", required=True, help="folders or zips with the pictures")
        parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
        parser.add_argument("--threads", type=int, default=2)

    parser = commands.add_parser("extract", help="pictures -> feature store")
    spec(parser)
    paths(parser, "corpus", "inputs", "shards", "out")
    parser.add_argument("--trained", type=Path, help="what `pretrain` wrote, for weights 'boxes'")
    pictures(parser)
    parser.set_defaults(function=extract)
    parser = commands.add_parser("pretrain", help="boxes of training pictures -> weights of a backbone")
    spec(parser)
    paths(parser, "boxes", "out")
    pictures(parser)
    parser.set_defaults(function=pretrain)
    parser = commands.add_parser("info", help="say what is in a feature store, and verify it")
    parser.add_argument("file", type=Path)
    parser.set_defaults(function=info)
