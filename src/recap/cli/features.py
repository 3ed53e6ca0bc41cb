"""``recap features``: feature stores."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from recap.cli.arguments import Arguments, chosen, mapping, paths, spec
from recap.core.gpus import claim


def add_features(commands: Any) -> None:
    """Add the commands of this group."""

    def extract(a: Arguments) -> None:
        from recap.core.config import Features
        from recap.core.params import validate

        claim(a.device)
        extract_features(validate(Features, a.spec, "features"), a)

    def pretrain(a: Arguments) -> None:
        from recap.core.config import GridFeatures
        from recap.core.params import validate

        claim(a.device)
        from recap.features.pretrain import pretrain_backbone

        spec: GridFeatures = validate(GridFeatures, a.spec, "features")
        pretrain_backbone(spec=spec, **chosen(a, "boxes images device threads out"))

    def bring(a: Arguments) -> None:
        from recap.core.config import ImportedFeatures
        from recap.core.params import validate
        from recap.features.importers.job import import_features

        values = a.spec
        if values is None:
            values = {"kind": "imported", **chosen(a, "form dtype grid rows clip_boxes")}
            values["sources"] = [str(path) for path in a.source or []]
        shards = a.shards or a.out.with_name(f"{a.out.name}.shards")
        spec: ImportedFeatures = validate(ImportedFeatures, values, "features")
        import_features(spec=spec, shards=shards, **chosen(a, "inputs corpus out"))

    def info(a: Arguments) -> None:
        from recap.core.config import Features
        from recap.core.params import validate
        from recap.features.info import info as describe

        print(describe(a.file, spec=validate(Features, a.spec, "features") if a.spec else None))

    def pictures(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--images", type=Path, nargs="+", required=True, help="folders or zips with the pictures")
        parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
        parser.add_argument("--threads", type=int, default=2)

    parser = commands.add_parser("extract", help="pictures -> feature store, by any extractor")
    spec(parser)
    paths(parser, "corpus", "inputs", "shards", "out")
    parser.add_argument("--trained", type=Path, help="what `pretrain` wrote, for weights 'boxes'")
    parser.add_argument("--boxes", type=Path, help="a store with boxes, for kind 'crops'")
    pictures(parser)
    parser.set_defaults(function=extract)
    parser = commands.add_parser("pretrain", help="boxes of training pictures -> weights of a backbone")
    spec(parser)
    paths(parser, "boxes", "out")
    pictures(parser)
    parser.set_defaults(function=pretrain)
    parser = commands.add_parser("import", help="feature files of others -> feature store (docs/feature_files.md)")
    forms = ("bottom_up_tsv", "m2_hdf5", "grid_feats_pth", "vinvl_tsv", "npz_folder")
    whole = parser.add_mutually_exclusive_group(required=True)
    whole.add_argument("--form", choices=forms)
    whole.add_argument("--spec", type=mapping, help="settings as a JSON object, in place of all other options")
    parser.add_argument("--source", type=Path, nargs="+", help="files, or the folder")
    parser.add_argument("--inputs", type=Path, default=Path(), help="folder that sources are relative to")
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


def extract_features(spec: Any, a: Arguments) -> None:
    """Run the extractor that the settings name.

    Raises:
        ConfigError: this kind is not extracted from pictures, or something that it needs is not given.
    """
    from recap.core.errors import ConfigError

    given = chosen(a, "corpus images inputs device threads shards out")
    if spec.kind == "grid":
        from recap.features.grid import extract_grid

        extract_grid(spec=spec, trained=a.trained, **given)
    elif spec.kind == "crops":
        from recap.features.crops import extract_crops

        if a.boxes is None:
            raise ConfigError("kind 'crops' cuts out the boxes of another store: say which with --boxes")
        extract_crops(spec=spec, boxes=a.boxes, **given)
    elif spec.kind == "regions":
        from recap.features.regions import extract_regions

        extract_regions(spec=spec, **given)
    elif spec.kind == "segments":
        from recap.features.segments import extract_segments

        extract_segments(spec=spec, **given)
    else:
        raise ConfigError("kind 'imported' takes no pictures; use `recap features import`")
