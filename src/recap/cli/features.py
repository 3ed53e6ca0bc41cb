"""``recap features``: feature stores."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from recap.cli.arguments import Arguments, chosen, mapping, paths, spec


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

    def bring(a: Arguments) -> None:
        from recap.core.config import ImportedFeatures
        from recap.core.params import validate
        from recap.features.importers.job import import_features

        values = {"kind": "imported", **chosen(a, "form dtype grid rows clip_boxes")}
        values["sources"] = [str(path) for path in a.source]
        import_features(
            spec=validate(ImportedFeatures, values, "features"),
            inputs=Path(),
            corpus=a.corpus,
            shards=a.shards or a.out.with_name(f"{a.out.name}.shards"),
            out=a.out,
        )

    def info(a: Arguments) -> None:
        from recap.core.config import Features
        from recap.core.params import validate
        from recap.features.info import info as describe

        print(describe(a.file, spec=validate(Features, a.spec, "features") if a.spec else None))

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
    parser = commands.add_parser("import", help="feature files of others -> feature store (docs/feature_files.md)")
    forms = ("bottom_up_tsv", "m2_hdf5", "grid_feats_pth", "vinvl_tsv", "npz_folder")
    parser.add_argument("--form", required=True, choices=forms)
    parser.add_argument("--source", type=Path, nargs="+", required=True, help="files, or the folder")
    parser.add_argument("--corpus", type=Path, help="take exactly its images; all must be there")
    parser.add_argument("--dtype", default="float16", choices=["float16", "float32"])
    parser.add_argument("--grid", type=int, default=7, help="grid_feats_pth: cells per edge; 0 keeps the map")
    parser.add_argument("--rows", type=int, help="keep at most the first so many regions")
    parser.add_argument("--clip-boxes", action="store_true", help="bring boxes over the edge back into the picture")
    parser.add_argument("--shards", type=Path, help="folder for unfinished work (default: beside --out)")
    paths(parser, "out")
    parser.set_defaults(function=bring)
    parser = commands.add_parser("info", help="say what is in a feature store, and verify it")
    parser.add_argument("file", type=Path)
    parser.add_argument("--spec", type=mapping, help="settings that it must have been made with, as a JSON object")
    parser.set_defaults(function=info)
