"""``recap caption``, ``score``, ``scores`` and ``export``:
captions for photos, scored, and in the forms of others."""

import sys
import time
from collections.abc import Generator, Iterable, Sequence
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

from recap.cli.commands import Group, Section, command
from recap.cli.options import PARAMS, Device, Paths, above_0, read_execution
from recap.core.errors import ConfigError
from recap.core.log import log, progress
from recap.core.process import acquire_gpus

if TYPE_CHECKING:
    from recap.share.captioner import FailedPhoto, PhotoCaptions, Together

EXPORT = Group("export", "export results in other formats")
SCORES = Group("scores", "import scores that others computed")
CORPUS = (
    "corpus.parquet of the data set (default: that of a profile, else of --inputs, else of the "
    "user's cache)"
)
FIRST = "the first row: a published run (.jsonl.gz), or the folder of a run or of scores"
CAPTIONS = (
    "one caption per image: COCO's results form, JSON lines, {id: caption}, or CSV with the "
    "columns image_id (or file) and caption"
)

Run = Annotated[Path, "folder of a run, or one above several runs", "RUN"]
Folder = Annotated[Path, "the new folder"]
RUN_FILES = Section("files of a run that lies outside of its results")
Words = Annotated[Path | None, "vocabulary.json", RUN_FILES]
Stores = Annotated[Paths, "feature stores (.h5)", RUN_FILES]
Weights = Annotated[Path | None, "weights of what made the features", RUN_FILES]
Partial = Annotated[
    bool,
    "a part of COCO is meant: no number of pictures is asserted, and the server would refuse the "
    "result",
]

_FAILED = 1  # status where photos have no caption; those that have one are written


@command(
    "recap caption photo.jpg --run results/demo",
    "recap caption holiday/ 'more/**/*.png' --run results/demo --n-best 3 --format csv --out "
    "captions.csv",
    "recap caption photo.jpg --run results/demo --sample 5 --temperature 0.8 --seed 1",
    "recap caption --together front.png side.png --run results/iu_xray",
)
def caption(
    photos: Annotated[
        Sequence[str],
        "pictures; a folder stands for those directly in it, a pattern in quotes ('**/*.jpg') for "
        "all it matches",
        "PHOTO",
    ],
    *,
    run: Annotated[
        Path,
        "folder of a run, or one above several runs of one data set: the best on validation is "
        "taken",
    ],
    together: Annotated[bool, "the photos are views of one thing: one caption for all"] = False,
    n_best: Annotated[int, "captions a photo, at most --beam (1)", above_0(int)] = 1,
    beam: Annotated[
        int | None, "width of the search (that of the run's evaluation)", above_0(int)
    ] = None,
    sample: Annotated[
        int | None, "captions to draw for each photo, in place of a search", "N"
    ] = None,
    temperature: Annotated[
        float, "of --sample: below 1 more peaked, above 1 flatter (1)", "T"
    ] = 1.0,
    seed: Annotated[int, "of --sample (0)"] = 0,
    format: Annotated[Literal["pretty", "jsonl", "csv"], "of the output (pretty)"] = "pretty",
    out: Annotated[Path | None, "file to write (default: standard output)"] = None,
    explain: Annotated[
        Path | None, "also write a page with what the run looked at for each word (HTML)", "FILE"
    ] = None,
    batch_size: Annotated[int, "photos computed at a time (8)", above_0(int)] = 8,
    device: Device = "auto",
    vocabulary: Words = None,
    features: Stores = (),
    weights: Weights = None,
) -> None:
    """Caption photos with a trained run."""
    if explain is not None and (together or beam is not None or sample is not None):
        raise ConfigError(
            "--explain: shows one photo and the caption of the run's own beam; leave out "
            "--together, --beam, --sample"
        )
    files = _found(photos)
    begin = time.monotonic()
    acquire_gpus(device)
    from recap.share.captioner import FORMATS, load
    from recap.share.explain import explained_photos, write_explanations

    captioner = load(run, device=device, vocabulary=vocabulary, features=features, weights=weights)
    log.info(
        f"{captioner.run}: {captioner.name} on {captioner.device}, ready in "
        f"{time.monotonic() - begin:.1f} s"
    )
    examples: list[Together] = [tuple(files)] if together else list(files)
    views = len(files) if together else 1
    if views != captioner.views:
        log.warning(
            f"the run was trained with {captioner.views} pictures an example, and is given "
            f"{views}; --together takes the photos as views of one"
        )
    results: Iterable[PhotoCaptions | FailedPhoto] = captioner.stream(
        examples,
        beam=beam,
        n_best=n_best,
        sample=sample,
        temperature=temperature,
        seed=seed,
        batch_size=batch_size,
    )
    # else the captions themselves show how far it is
    if out is not None or not sys.stdout.isatty():
        results = progress(results, name="captions", unit="photos", total=len(examples))
    failed: list[FailedPhoto] = []
    _write(FORMATS[format](_captioned(results, failed)), out)
    if explain is not None:
        write_explanations(explained_photos(captioner, files), captioner.name, explain)
    if failed:
        log.error(f"{len(failed)} of {len(examples)} photos have no caption")
        sys.exit(_FAILED)


def _found(words: Sequence[str]) -> list[Path]:
    """Return the photos that words name."""
    from recap.share.photos import find_photos

    files, left_out = find_photos(words)
    if left_out:
        log.info(f"{left_out} files and folders that are no pictures by their names are left out")
    if not files:
        raise ConfigError(
            f"{words[0]}: holds no picture; name files, folders with pictures, or a pattern in "
            "quotes"
        )
    return files


def _write(lines: Iterable[str], out: Path | None) -> None:
    """Write a file when all lines are there, or print each as it comes."""
    from recap.core.files import atomic_path

    if out is None:
        for line in lines:
            print(line, end="", flush=True)
    else:
        with atomic_path(out) as temporary:
            temporary.write_text("".join(lines), encoding="utf-8", errors="replace")


def _captioned(
    results: Iterable["PhotoCaptions | FailedPhoto"], failed: list["FailedPhoto"]
) -> Generator["PhotoCaptions"]:
    """Yield what has captions; of other photos say why, and collect them."""
    from recap.share.captioner import PhotoCaptions
    from recap.tables.text import plain

    for result in results:
        if isinstance(result, PhotoCaptions):
            yield result
        else:
            failed.append(result)
            log.error(plain(result.reason))


@EXPORT.command(
    """
        recap export captions --spec '{"evaluation": {"beam": 3}}' --part test2014 \\
          --corpus corpus.parquet --vocabulary vocabulary.json --features features.h5 \\
          --model seed-1/scst seed-2/scst --out captions.json
    """,
    spec="recipes:EvaluationSpec",
)
def captions(
    *,
    spec: Any,
    execution: Path | None = None,
    part: Annotated[str, "folder of the pictures' names: val2014, test2014"],
    partial: Partial = False,
    corpus: Path,
    vocabulary: Path,
    features: Paths,
    model: Paths,
    out: Annotated[Path, "the captions (JSON)"],
) -> None:
    """Caption all pictures of val2014 or test2014, in COCO's results format."""
    how = read_execution(execution)
    acquire_gpus(how.device)
    from recap.evaluation.decode import caption_part

    caption_part(
        spec=spec,
        execution=how,
        part=part,
        partial=partial,
        corpus=corpus,
        vocabulary=vocabulary,
        features=features,
        model=model,
        out=out,
    )


@EXPORT.command(
    "recap export coco-server --val val.json --test test.json --algorithm transformer --out "
    "mine.zip",
    calls="recap.share.coco_server:write_submission",
)
def coco_server(
    *,
    val: Annotated[Paths, "files with captions of val2014"],
    test: Annotated[Paths, "files with captions of test2014"],
    algorithm: Annotated[str, "name of the submission"],
    partial: Partial = False,
    out: Annotated[Path, "the zip; the two files in it are written beside it"],
) -> None:
    """Zip the captions of val2014 and test2014 for the COCO caption server."""


@EXPORT.command("recap export hub results/demo --out shared/demo")
def hub(
    run: Run,
    *,
    out: Folder,
    vocabulary: Words = None,
    features: Stores = (),
    weights: Weights = None,
    params: Path = PARAMS,
) -> None:
    """A run as one folder for the HuggingFace hub: weights, settings, vocabulary, features,
    card."""
    from recap.share.export import export_hub

    export_hub(run, out, params=params, vocabulary=vocabulary, features=features, weights=weights)
    log.info(
        f"{out}: recap.load reads it; README.md is the card: check the licenses before you share it"
    )


@command(
    "recap score captions.json --dataset coco --fetch",
    "recap score ours.json theirs.csv --dataset flickr8k --against results/demo/runs/RUN --format "
    "latex",
    "recap score captions.csv --dataset mine --corpus results/mine/data/mine/corpus.parquet --out "
    "scores",
)
def score(
    captions: Annotated[Sequence[Path], CAPTIONS, "FILE"],
    *,
    dataset: Annotated[
        str, "data set: coco, flickr8k, flickr30k; in a clone also `recap params list datasets`"
    ],
    split: Annotated[str, "whose images are scored (test)"] = "test",
    fetch: Annotated[
        bool, "download the data set's captions into the user's cache, if they are nowhere"
    ] = False,
    against: Annotated[Path | None, FIRST, "RUN"] = None,
    corpus: Annotated[Path | None, CORPUS] = None,
    inputs: Annotated[Path, "folder of the data set's files (resources)"] = Path("resources"),
    metrics: Annotated[Sequence[str] | None, "(BLEU METEOR ROUGE-L CIDEr SPICE)"] = None,
    format: Annotated[Literal["markdown", "latex", "json"], "of the table (markdown)"] = "markdown",
    out: Annotated[Path | None, "folder for metrics.json and the scores per image"] = None,
    params: Path = PARAMS,
) -> None:
    """Score caption files of any systems with the same metrics, and compare them with the first."""
    from recap.data.references import references_corpus
    from recap.report.caption_scores import score_table, table_text
    from recap.settings.metrics import COCO

    corpus = corpus or references_corpus(dataset, params=params, inputs=inputs, fetch=fetch)
    with TemporaryDirectory(prefix="recap-score-") as temporary:
        folder = out or Path(temporary)
        result = score_table(
            captions,
            corpus=corpus,
            split=split,
            metrics=metrics or COCO,
            against=against,
            out=folder,
        )
    print(table_text(result, format))


@SCORES.command(
    "recap scores import answer.txt --submission reports/mine/server/mine_t2_wide --date "
    "2026-11-24",
    name="import",
    calls="recap.share.coco_server:import_answer",
)
def import_(
    answer: Annotated[Path, "the answer, with a line `c5_Bleu_1: 0.81` for each score", "FILE"],
    *,
    submission: Annotated[Path, "folder of what was sent, with its captions"],
    day: Annotated[
        date, "of the answer", "YYYY-MM-DD", {"flag": "--date", "type": date.fromisoformat}
    ],
) -> None:
    """Import the answer of COCO's caption server into a table."""
