"""``recap features``: feature stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from recap.cli.arguments import Arguments, add_compute, chosen, mapping, paths, spec
from recap.cli.parser import Commands, command
from recap.core.gpus import claim


def add_features(commands: Commands) -> None:
    """Add the commands of this group."""

    def extract(a: Arguments) -> None:
        settings = _settings(a, "Features")
        claim(a.device)
        extract_features(settings, a)

    def pretrain(a: Arguments) -> None:
        settings = _settings(a, "GridFeatures")
        claim(a.device)
        from recap.features.pretrain import pretrain_backbone

        pretrain_backbone(spec=settings, **chosen(a, "boxes images device threads out"))

    def info(a: Arguments) -> None:
        settings = _settings(a, "Features") if a.spec else None
        from recap.features.info import info as describe

        print(describe(a.file, spec=settings))

    parser = command(
        commands,
        "extract",
        purpose="pictures -> feature store, by any extractor",
        example="""
            recap features extract --spec '{"kind": "grid", "backbone": "mobilenetv2_100", "weights": "pretrained"}' \\
              --corpus corpus.parquet --images photos.zip --inputs resources --shards work/shards --out features.h5
        """,
    )
    spec(parser, "Features")
    paths(parser, "corpus", "inputs", shards="folder for unfinished work", out="the feature store")
    parser.add_argument("--trained", type=Path, metavar="PATH", help="what `pretrain` wrote, for weights 'boxes'")
    parser.add_argument("--boxes", type=Path, metavar="PATH", help="a store with boxes, for kind 'crops'")
    add_compute(parser)
    parser.set_defaults(function=extract)
    parser = command(
        commands,
        "pretrain",
        purpose="boxes of training pictures -> weights of a backbone",
        example="""
            recap features pretrain --spec spec.json --boxes boxes.json --images images.zip \\
              --out backbone.safetensors
        """,
    )
    spec(parser, "GridFeatures")
    paths(parser, boxes="boxes.json of the data set: what is where in its pictures", out="the weights")
    add_compute(parser)
    parser.set_defaults(function=pretrain)
    _add_import(commands)
    parser = command(
        commands,
        "info",
        purpose="say what is in a feature store, and verify it",
        example="recap features info features.h5",
    )
    parser.add_argument("file", type=Path, help="the feature store")
    parser.add_argument(
        "--spec", type=mapping, metavar="JSON", help="settings that it must have been made with, as a JSON object"
    )
    parser.spec_keys = "Features"
    parser.set_defaults(function=info)


def _settings(a: Arguments, keys: str) -> Any:
    """Return the spec as an object of its class."""
    from recap.core.config.specs import SPECS
    from recap.core.params import validate

    return validate(SPECS[keys], a.spec, "--spec")


def _add_import(commands: Commands) -> None:
    def bring(a: Arguments) -> None:
        if a.spec is None:
            a.spec = {"kind": "imported", **chosen(a, "form dtype grid rows clip_boxes")}
            a.spec["sources"] = [str(path) for path in a.source or []]
        settings = _settings(a, "ImportedFeatures")
        from recap.features.importers.job import import_features

        shards = a.shards or a.out.with_name(f"{a.out.name}.shards")
        import_features(spec=settings, shards=shards, **chosen(a, "inputs corpus out"))

    parser = command(
        commands,
        "import",
        purpose="feature files of others -> feature store (docs/feature_files.md)",
        example="recap features import --form bottom_up_tsv --source *.tsv --corpus corpus.parquet --out features.h5",
    )
    forms = ("bottom_up_tsv", "m2_hdf5", "grid_feats_pth", "vinvl_tsv", "npz_folder")
    whole = parser.add_mutually_exclusive_group(required=True)
    whole.add_argument("--form", choices=forms, help="form of the files")
    whole.add_argument(
        "--spec", type=mapping, metavar="JSON", help="settings as a JSON object, in place of all other options"
    )
    parser.spec_keys = "ImportedFeatures"
    parser.add_argument("--source", type=Path, nargs="+", metavar="PATH", help="files, or the folder")
    parser.add_argument(
        "--inputs", type=Path, default=Path(), metavar="PATH", help="folder that sources are relative to"
    )
    parser.add_argument("--corpus", type=Path, metavar="PATH", help="take exactly its images; all must be there")
    parser.add_argument("--dtype", default="float16", choices=["float16", "float32"], help="of the vectors (float16)")
    parser.add_argument("--grid", type=int, default=7, help="grid_feats_pth: cells per edge; 0 keeps the map (7)")
    parser.add_argument("--rows", type=int, help="keep at most the first so many regions")
    parser.add_argument("--clip-boxes", action="store_true", help="bring boxes over the edge back into the picture")
    parser.add_argument(
        "--shards", type=Path, metavar="PATH", help="folder for unfinished work (default: beside --out)"
    )
    paths(parser, out="the feature store")
    parser.set_defaults(function=bring)


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
