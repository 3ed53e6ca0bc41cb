"""``recap caption`` and ``recap export``: captions for photos of one's own, and runs in the forms that others take."""

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from recap.cli.frame import Group, Section, command
from recap.cli.options import Device, read_execution
from recap.core.errors import ConfigError
from recap.core.log import log
from recap.core.process import claim

if TYPE_CHECKING:
    from recap.share.captioner import FailedPhoto, PhotoCaptioner, PhotoCaptions, Together

EXPORT = Group("export", "export results in other formats")

Run = Annotated[Path, "folder of a run, or one above several runs", "RUN"]
Folder = Annotated[Path, "the new folder"]
RUN_FILES = Section("files of a run that lies outside of its results")
RunVocabulary = Annotated[Path | None, "vocabulary.json", RUN_FILES]
RunFeatures = Annotated[Sequence[Path], "feature stores (.h5)", RUN_FILES]
RunWeights = Annotated[Path | None, "weights of what made the features", RUN_FILES]
Partial = Annotated[
    bool, "a part of COCO is meant: no number of pictures is asserted, and the server would refuse the result"
]

_FAILED = 1  # status where photos have no caption; those that have one are written


@command(
    "recap caption photo.jpg --run results/demo",
    "recap caption holiday/ 'more/**/*.png' --run results/demo --n-best 3 --format csv --out captions.csv",
    "recap caption --together front.png side.png --run results/iu_xray",
)
def caption(
    photos: Annotated[
        Sequence[str],
        "pictures; a folder stands for those directly in it, a pattern in quotes ('**/*.jpg') for all it matches",
        "PHOTO",
    ],
    /,
    *,
    run: Annotated[Path, "folder of a run, or one above several runs of one data set: the best on validation is taken"],
    together: Annotated[bool, "the photos are views of one thing: one caption for all"] = False,
    n_best: Annotated[int, "captions a photo, at most --beam (1)"] = 1,
    beam: Annotated[int | None, "width of the search (that of the run's evaluation)"] = None,
    format: Annotated[Literal["pretty", "jsonl", "csv"], "of the output (pretty)"] = "pretty",
    out: Annotated[Path | None, "file to write (default: standard output)"] = None,
    explain: Annotated[
        Path | None, "also write a page with what the run looked at for each word (HTML)", "FILE"
    ] = None,
    batch_size: Annotated[int, "photos computed at a time (8)"] = 8,
    device: Device = "auto",
    vocabulary: RunVocabulary = None,
    features: RunFeatures = (),
    weights: RunWeights = None,
) -> None:
    """Caption photos with a trained run."""
    if min(n_best, batch_size, 1 if beam is None else beam) < 1:
        raise ConfigError("--n-best, --beam and --batch-size: must be 1 or more")
    if explain is not None and (together or beam is not None):
        raise ConfigError(
            "--explain: shows one photo and the caption of the run's own beam; leave out --together, --beam"
        )
    from recap.share.photos import find_photos

    pictures = find_photos(photos)
    if pictures.left_out:
        log.info(f"{pictures.left_out} files and folders that are no pictures by their names are left out")
    if not pictures.files:
        raise ConfigError(f"{photos[0]}: holds no picture; name files, folders with pictures, or a pattern in quotes")
    begin = time.monotonic()
    claim(device)
    from recap.share.captioner import load

    captioner = load(run, device=device, vocabulary=vocabulary, features=features, weights=weights)
    log.info(f"{captioner.run}: {captioner.name} on {captioner.device}, ready in {time.monotonic() - begin:.1f} s")
    examples: list[Together] = [tuple(pictures.files)] if together else list(pictures.files)
    views = len(pictures.files) if together else 1
    if views != captioner.views:
        log.warning(
            f"the run was trained with {captioner.views} pictures an example, and is given {views}; "
            "--together takes the photos as views of one"
        )
    results = captioner.stream(examples, beam=beam, n_best=n_best, batch_size=batch_size)
    complete = _write(results, len(examples), format, out)
    if explain is not None:
        _explain(explain, captioner, pictures.files)
    if not complete:
        sys.exit(_FAILED)


def _explain(out: Path, captioner: "PhotoCaptioner", photos: Sequence[Path]) -> None:
    """Write the page of all photos that can be read; the others are named already."""
    from recap.core.errors import DataError
    from recap.share import explain

    explanations: list[explain.Explanation] = []
    for photo in photos:
        try:
            explanations.append(explain.explain(captioner, photo))
        except DataError as error:
            log.error(f"not explained: {error}")
    explain.write_explanations(explanations, captioner.name, out)


def _write(results: Iterable["PhotoCaptions | FailedPhoto"], total: int, form: str, out: Path | None) -> bool:
    """Write the captions as they come, a file all at once at the end; return whether every photo has one."""
    from recap.core.files import atomic_path
    from recap.core.log import progress
    from recap.share.captioner import FORMATS

    failed: list[FailedPhoto] = []
    if out is not None or not sys.stdout.isatty():  # else the captions themselves show how far it is
        results = progress(results, name="captions", unit="photos", total=total)
    lines = FORMATS[form](_captioned(results, failed))
    if out is None:
        for line in lines:
            print(line, end="", flush=True)
    else:
        with atomic_path(out) as temporary, temporary.open("w", encoding="utf-8", errors="replace") as file:
            file.writelines(lines)
    if failed:
        log.error(f"{len(failed)} of {total} photos have no caption")
    return not failed


def _captioned(
    results: Iterable["PhotoCaptions | FailedPhoto"], failed: list["FailedPhoto"]
) -> Iterator["PhotoCaptions"]:
    """Yield photos with captions; of the others each is named, and noted in ``failed``."""
    from recap.share.captioner import FailedPhoto
    from recap.tables.text import plain

    for result in results:
        if isinstance(result, FailedPhoto):
            failed.append(result)
            log.error(plain(result.reason))
        else:
            yield result


@EXPORT.command(
    """
        recap export captions --spec '{"evaluation": {"beam": 3}}' --part test2014 --corpus corpus.parquet \\
          --vocabulary vocabulary.json --features features.h5 --model seed-1/scst seed-2/scst --out captions.json
    """,
    spec="EvaluationSpec",
)
def captions(
    *,
    spec: Any,
    execution: Path | None = None,
    part: Annotated[str, "folder of the pictures' names: val2014, test2014"],
    partial: Partial = False,
    corpus: Path,
    vocabulary: Path,
    features: Sequence[Path],
    model: Sequence[Path],
    out: Annotated[Path, "the captions (JSON)"],
) -> None:
    """Caption all pictures of val2014 or test2014, in COCO's results format."""
    how = read_execution(execution)
    claim(how.device)
    from recap.evaluation.job import caption_part

    files: dict[str, Any] = {
        "corpus": corpus,
        "vocabulary": vocabulary,
        "features": features,
        "model": model,
        "out": out,
    }
    caption_part(spec=spec, execution=how, part=part, partial=partial, **files)


@EXPORT.command("recap export coco-server --val val.json --test test.json --algorithm transformer --out mine.zip")
def coco_server(
    *,
    val: Annotated[Sequence[Path], "files with captions of val2014"],
    test: Annotated[Sequence[Path], "files with captions of test2014"],
    algorithm: Annotated[str, "name of the submission"],
    partial: Partial = False,
    out: Annotated[Path, "the zip; the two files in it are written beside it"],
) -> None:
    """Zip the captions of val2014 and test2014 for the COCO caption server."""
    from recap.settings.datasets import COCO_PARTS
    from recap.share.coco_server import write_submission

    sizes = None if partial else COCO_PARTS
    print(write_submission(captions={"val2014": val, "test2014": test}, algorithm=algorithm, out=out, sizes=sizes))


@EXPORT.command("recap export hub results/demo --out shared/demo")
def hub(
    run: Run,
    /,
    *,
    out: Folder,
    vocabulary: RunVocabulary = None,
    features: RunFeatures = (),
    weights: RunWeights = None,
    params: Path = Path("params"),
) -> None:
    """A run as one folder for the HuggingFace hub: weights, settings, vocabulary, features, card."""
    from recap.share.export import export_hub

    export_hub(run=run, out=out, params=params, vocabulary=vocabulary, features=features, weights=weights)
    log.info(f"{out}: recap.load reads it; README.md is the card: check the licenses before you share it")


@EXPORT.command("recap export mlflow results/demo --out shared/model")
def mlflow(
    run: Run,
    /,
    *,
    out: Folder,
    vocabulary: RunVocabulary = None,
    features: RunFeatures = (),
    weights: RunWeights = None,
    params: Path = Path("params"),
) -> None:
    """A run as an MLflow model: image bytes in, captions out."""
    from recap.share.export import export_mlflow

    export_mlflow(run=run, out=out, params=params, vocabulary=vocabulary, features=features, weights=weights)
    log.info(f"serve it with: mlflow models serve -m {out} --env-manager local --host 127.0.0.1 --port 5001")
