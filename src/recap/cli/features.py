"""``recap features``: feature stores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from recap.cli.arguments import Arguments, add_compute, calls, chosen, mapping, paths, spec, typed
from recap.cli.parser import Commands, command
from recap.core import checksums
from recap.core.errors import ConfigError, nearest
from recap.core.process import claim

if TYPE_CHECKING:
    from recap.settings.features import FeaturesConfig


def add_features(commands: Commands) -> None:
    """Add the commands of this group."""
    _add_extract(commands)
    _add_merge(commands)
    _add_note(commands)
    _add_pretrain(commands)
    _add_tune(commands)
    _add_import(commands)
    _add_info(commands)


def _add_extract(commands: Commands) -> None:
    parser = command(
        commands,
        "extract",
        purpose="extract features of pictures into a feature store",
        example="""
            recap features extract --spec '{"kind": "grid", "backbone": "mobilenetv2_100", "weights": "pretrained"}' \\
              --corpus corpus.parquet --images photos.zip --inputs resources --shards work/shards --out features.h5
        """,
    )
    spec(parser, "Features")
    paths(parser, "corpus", "inputs", shards="folder for unfinished work", out="the feature store")
    paths(
        parser,
        required=False,
        trained="what `pretrain` wrote, for weights 'boxes'",
        boxes="a store with boxes, for kind 'crops'",
        cells="a store with a grid, for kind 'pooled'",
        execution="YAML with batch_size and shard_size, in place of those of --spec: they do not identify a store",
        used="list of images (`recap data used`); without, all",
        kept="another name of the finished store, from which it grows after --out is deleted",
        done="what is written when the part is finished",
    )
    parser.add_argument(
        "--products", type=Path, nargs="+", default=[], metavar="PATH", help="boxes.json of scenes, for kind 'pooled'"
    )
    parser.add_argument(
        "--part", metavar="K/N", help="extract the K-th of N parts; --done and `recap features merge` go with it"
    )
    add_compute(parser, images_required=False)
    parser.set_defaults(function=_extract)


def _extract(a: Arguments) -> None:
    from recap.core.plugins import resolve
    from recap.features.job import ExtractionJob
    from recap.features.parts import Part

    if (a.part is None) != (a.done is None):
        raise ConfigError("--part and --done go together; give both, or neither")
    settings = typed(a, "Features")
    if a.execution is not None:
        settings = _executed(settings, a.execution)
    if a.trained:
        checksums.check(a.trained)
    if settings.from_pictures:
        claim(a.device)
    options = chosen(a, "corpus images inputs shards out device threads trained boxes cells products used kept")
    job = ExtractionJob(**options, part=Part.of(a.part, a.done) if a.part else None)
    resolve(settings.extractor)(settings, job)


def _add_merge(commands: Commands) -> None:
    parser = command(
        commands,
        "merge",
        purpose="merge the finished parts of an extraction into a feature store",
        example="recap features merge done-1.json done-2.json --shards work/shards --out features.h5",
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="PATH", help="what the parts wrote as --done")
    paths(parser, required=False, kept="as for `recap features extract`")
    paths(parser, shards="folder of the parts' unfinished work", out="the feature store")
    parser.set_defaults(function=calls("recap.features.writer:merge_parts", "files out shards kept"))


def _add_note(commands: Commands) -> None:
    parser = command(
        commands,
        "note",
        purpose="record the settings that determine a feature store",
        example="recap features note --spec spec.json --code 0123456789abcdef --files photos.zip --out extractor.json",
    )
    spec(parser, "Features")
    parser.add_argument("--code", required=True, metavar="DIGEST", help="of the extractor's source")
    parser.add_argument("--files", type=Path, nargs="*", default=[], metavar="PATH", help="all that it reads")
    paths(parser, out="the note, another one when settings, source or a file's bytes change")
    parser.set_defaults(function=calls("recap.features.attributes:write_note", "code files out", spec="Features"))


def _executed(settings: FeaturesConfig, file: Path) -> FeaturesConfig:
    """Return the settings of an extractor with what a file says about how it works."""
    from recap.settings.params import read_mapping, validate

    execution = read_mapping(file)
    for key in execution:
        if key not in settings.EXECUTION:
            known = nearest(key, settings.EXECUTION)
            raise ConfigError(f"{file}: {key!r} does not say how an extractor works; {known}")
    executed: FeaturesConfig = validate(type(settings), {**settings.model_dump(), **execution}, str(file))
    return executed


def _add_pretrain(commands: Commands) -> None:
    parser = command(
        commands,
        "pretrain",
        purpose="train a backbone on the boxes of training pictures",
        example="""
            recap features pretrain --spec spec.json --boxes boxes.json --images images.zip \\
              --out backbone.safetensors
        """,
    )
    spec(parser, "GridFeatures")
    paths(parser, boxes="boxes.json of the data set: what is where in its pictures", out="the weights")
    add_compute(parser)
    parser.set_defaults(function=_pretrain)


def _pretrain(a: Arguments) -> None:
    settings = typed(a, "GridFeatures")
    claim(a.device)
    from recap.features.pretrain import pretrain_backbone

    pretrain_backbone(spec=settings, **chosen(a, "boxes images device threads out"))
    checksums.record(a.out)


def _add_tune(commands: Commands) -> None:
    parser = command(
        commands,
        "tune",
        purpose="tune a backbone on the captions of training pictures",
        example="""
            recap features tune --spec spec.json --corpus corpus.parquet --images images.zip --inputs resources \\
              --out backbone.safetensors
        """,
    )
    spec(parser, "GridFeatures")
    paths(parser, "corpus", inputs="folder that the weights are relative to", out="the tuned weights")
    add_compute(parser)
    parser.set_defaults(function=_tune)


def _tune(a: Arguments) -> None:
    settings = typed(a, "GridFeatures")
    claim(a.device)
    from recap.features.tune import tune_backbone

    tune_backbone(spec=settings, **chosen(a, "corpus images inputs device threads out"))
    checksums.record(a.out)


def _add_import(commands: Commands) -> None:
    parser = command(
        commands,
        "import",
        purpose="import feature files of others into a feature store (docs/reference/feature_files.md)",
        example="recap features import --format bottom_up_tsv --source *.tsv --corpus corpus.parquet --out features.h5",
    )
    whole = parser.add_mutually_exclusive_group(required=True)
    whole.add_argument(
        "--format", metavar="NAME", help="format of the files, as docs/reference/feature_files.md calls it"
    )
    whole.add_argument(
        "--spec", type=mapping, metavar="JSON", help="settings as a JSON object, in place of all other options"
    )
    parser.spec_keys = "ImportedFeatures"
    parser.add_argument("--source", type=Path, nargs="+", metavar="PATH", help="files, or the folder")
    parser.add_argument(
        "--inputs", type=Path, default=Path(), metavar="PATH", help="folder that sources are relative to"
    )
    parser.add_argument("--corpus", type=Path, metavar="PATH", help="take exactly its images; all must be there")
    parser.add_argument(
        "--dtype", default="float16", choices=["float16", "float32"], help="type of the stored vectors (float16)"
    )
    parser.add_argument(
        "--grid", type=int, default=7, metavar="N", help="grid_feats_pth: cells per edge; 0 keeps the map (7)"
    )
    parser.add_argument("--rows", type=int, metavar="N", help="keep only the first N regions")
    parser.add_argument(
        "--names", choices=["files", "ids"], help="names are those of pictures, or image ids (told by both)"
    )
    parser.add_argument("--clip-boxes", action="store_true", help="clip boxes to the picture")
    parser.add_argument(
        "--shards", type=Path, metavar="PATH", help="folder for unfinished work (default: beside --out)"
    )
    paths(parser, out="the feature store")
    parser.set_defaults(function=_import)


def _import(a: Arguments) -> None:
    if a.spec is None:
        a.spec = {"kind": "imported", **chosen(a, "format dtype grid rows names clip_boxes")}
        a.spec["sources"] = [str(path) for path in a.source or []]
    settings = typed(a, "ImportedFeatures")
    from recap.features.importers.job import import_features
    from recap.features.job import ExtractionJob

    shards = a.shards or a.out.with_name(f"{a.out.name}.shards")
    import_features(settings, ExtractionJob(images=(), shards=shards, **chosen(a, "inputs corpus out")))


def _add_info(commands: Commands) -> None:
    parser = command(
        commands,
        "info",
        purpose="show and verify the content of a feature store",
        example="recap features info features.h5",
    )
    parser.add_argument("file", type=Path, help="the feature store")
    parser.add_argument(
        "--spec", type=mapping, metavar="JSON", help="settings that it must have been made with, as a JSON object"
    )
    parser.spec_keys = "Features"
    parser.set_defaults(function=_info)


def _info(a: Arguments) -> None:
    settings = typed(a, "Features") if a.spec else None
    from recap.features.info import info

    print(info(a.file, spec=settings))
