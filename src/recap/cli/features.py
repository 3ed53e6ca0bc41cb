"""``recap features``: feature stores."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from recap.cli.commands import Group, checked
from recap.cli.options import Device, Paths, mapping
from recap.core import checksums
from recap.core.errors import ConfigError, nearest
from recap.core.process import acquire_gpus

if TYPE_CHECKING:
    from recap.settings.features import FeaturesConfig

FEATURES = Group("features", "extract, import and inspect feature stores")
EXECUTION = (
    "YAML with batch_size and shard_size, in place of those of --spec: they do not identify a store"
)
KEPT = "another name of the finished store, from which it grows after --out is deleted"
PART = "extract the K-th of N parts; --done and `recap features merge` go with it"
MADE_WITH = "settings that it must have been made with, as a JSON object"
Store = Annotated[Path, "the feature store"]
NAMES = "names are those of pictures, or image ids (told by both)"


@FEATURES.command(
    """
        recap features extract \\
          --spec '{"kind": "grid", "backbone": "mobilenetv2_100", "weights": "pretrained"}' \\
          --corpus corpus.parquet --images photos.zip --inputs resources \\
          --shards work/shards --out features.h5
    """,
    spec="features:Features",
)
def extract(
    *,
    spec: Any,
    corpus: Path,
    inputs: Path,
    shards: Annotated[Path, "folder for unfinished work"],
    out: Store,
    trained: Annotated[Path | None, "what `pretrain` wrote, for weights 'boxes'"] = None,
    boxes: Annotated[Path | None, "a store with boxes, for kind 'crops'"] = None,
    cells: Annotated[Path | None, "a store with a grid, for kind 'pooled'"] = None,
    execution: Annotated[Path | None, EXECUTION] = None,
    used: Annotated[Path | None, "list of images, an id a line; without, all"] = None,
    kept: Annotated[Path | None, KEPT] = None,
    done: Annotated[Path | None, "what is written when the part is finished"] = None,
    products: Annotated[Paths, "boxes.json of scenes, for kind 'pooled'"] = (),
    part: Annotated[str | None, PART, "K/N"] = None,
    images: Annotated[Paths, {"nargs": "*"}] = (),
    device: Device = "auto",
    threads: int = 2,
) -> None:
    """Extract features of pictures into a feature store."""
    from recap.features.extraction import ExtractionJob
    from recap.features.write import Part
    from recap.settings.kinds import resolve

    if (part is None) != (done is None):
        raise ConfigError("--part and --done go together; give both, or neither")
    settings = spec if execution is None else _executed(spec, execution)
    if trained:
        checksums.check(trained)
    if settings.from_pictures:
        acquire_gpus(device)
    job = ExtractionJob(
        corpus=corpus,
        images=images,
        inputs=inputs,
        shards=shards,
        out=out,
        device=device,
        threads=threads,
        trained=trained,
        boxes=boxes,
        cells=cells,
        products=products,
        used=used,
        kept=kept,
        part=Part.of(part, done) if part and done else None,
    )
    resolve(settings.extractor)(settings, job)


def _executed(settings: "FeaturesConfig", file: Path) -> "FeaturesConfig":
    """Return the settings of an extractor with what a file says about how it works."""
    from recap.settings.params import read_mapping, validate

    execution = read_mapping(file)
    for key in execution:
        if key not in settings.EXECUTION:
            raise ConfigError(
                f"{file}: {key!r} does not say how an extractor works; "
                f"{nearest(key, settings.EXECUTION)}"
            )
    return validate(type(settings), {**settings.model_dump(), **execution}, str(file))


@FEATURES.command(
    "recap features merge done-1.json done-2.json --shards work/shards --out features.h5",
    calls="recap.features.write:merge_parts",
)
def merge(
    files: Annotated[Paths, "what the parts wrote as --done", "PATH"],
    *,
    kept: Annotated[Path | None, "as for `recap features extract`"] = None,
    shards: Annotated[Path, "folder of the parts' unfinished work"],
    out: Store,
) -> None:
    """Merge the finished parts of an extraction into a feature store."""


@FEATURES.command(
    "recap features import --format bottom_up_tsv --source *.tsv --corpus corpus.parquet --out "
    "features.h5",
    name="import",
)
def import_(
    *,
    format: Annotated[str, "format of the files, as docs/reference/feature_files.md calls it"],
    source: Annotated[Paths, "files, or the folder"] = (),
    inputs: Annotated[Path, "folder that sources are relative to"] = Path(),
    corpus: Annotated[Path | None, "take exactly its images; all must be there"] = None,
    dtype: Annotated[
        Literal["float16", "float32"], "type of the stored vectors (float16)"
    ] = "float16",
    grid: Annotated[int, "grid_feats_pth: cells per edge; 0 keeps the map (7)"] = 7,
    rows: Annotated[int | None, "keep only the first N regions"] = None,
    clip_boxes: Annotated[bool, "clip boxes to the picture"] = False,
    names: Annotated[Literal["files", "ids"] | None, NAMES] = None,
    shards: Annotated[Path | None, "folder for unfinished work (default: beside --out)"] = None,
    out: Store,
) -> None:
    """Import feature files of others into a feature store (docs/reference/feature_files.md)."""
    from recap.features.extraction import ExtractionJob
    from recap.features.importers import import_features

    options: dict[str, Any] = {
        "kind": "imported",
        "format": format,
        "sources": [str(path) for path in source],
        "dtype": dtype,
        "grid": grid,
        "rows": rows,
        "names": names,
        "clip_boxes": clip_boxes,
    }
    spec = checked(options, "features:ImportedFeatures")
    shards = shards or out.with_name(f"{out.name}.shards")
    import_features(
        spec, ExtractionJob(images=(), shards=shards, inputs=inputs, corpus=corpus, out=out)
    )


@FEATURES.command(
    "recap features info features.h5", spec="features:Features", calls="recap.features.store:info"
)
def info(file: Store, *, spec: Annotated[Any, MADE_WITH, "JSON", {"type": mapping}] = None) -> None:
    """Show and verify the content of a feature store."""
