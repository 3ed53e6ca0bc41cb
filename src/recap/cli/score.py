"""``recap score`` and ``recap scores``: captions that any other program made, and scores that others computed."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from recap.cli.frame import Group, Option, command
from recap.core.errors import ConfigError

SCORES = Group("scores", "import scores that others computed")
CORPUS = "corpus.parquet of the data set (default: that of a profile, else it is made of --inputs)"
CAPTIONS = (
    "one caption per image: COCO's results form, JSON lines, {id: caption}, or CSV with the columns image_id "
    "(or file) and caption"
)


@command(
    "recap score captions.json --dataset flickr8k",
    "recap score captions.csv --dataset mine --corpus results/mine/data/mine/corpus.parquet --out scores",
)
def score(
    captions: Annotated[Path, CAPTIONS, "FILE"],
    /,
    *,
    dataset: Annotated[str, "data set (`recap params list datasets`)"],
    split: Annotated[str, "whose images are scored (test)"] = "test",
    corpus: Annotated[Path | None, CORPUS] = None,
    inputs: Annotated[Path, "folder of the data set's files (resources)"] = Path("resources"),
    metrics: Annotated[Sequence[str] | None, "(BLEU METEOR ROUGE-L CIDEr SPICE)"] = None,
    out: Annotated[Path | None, "folder for metrics.json and the scores per image"] = None,
    params: Path = Path("params"),
) -> None:
    """Score a caption file of any other system with the same metrics."""
    from recap.evaluation.caption_file import score_file, scores_text
    from recap.settings.metrics import COCO

    corpus = corpus or _corpus(dataset, params, inputs)
    with TemporaryDirectory(prefix="recap-score-") as temporary:
        folder = out or Path(temporary)
        scores = score_file(captions=captions, corpus=corpus, split=split, metrics=metrics or COCO, out=folder)
        print(scores_text(scores, folder))


def _corpus(dataset: str, params: Path, inputs: Path) -> Path:
    """Return the corpus of a data set: one that a profile has, else one built now from the data set's files."""
    from recap.core.hashing import value_hash
    from recap.data.corpus import CORPUS, Corpus, build_corpus
    from recap.settings.params import load_named

    settings = load_named(params, "datasets", dataset)
    finished = sorted(Path("results").glob(f"*/data/{dataset}/{CORPUS}"))
    if len({Corpus.read(path).split_hash for path in finished}) > 1:
        raise ConfigError(f"--dataset {dataset}: {' and '.join(map(str, finished))} differ; name one with --corpus")
    if finished:
        return finished[0]
    missing = [name for name in settings.outside_files() if not (inputs / name).exists()]
    if missing:
        raise ConfigError(
            f"{inputs / missing[0]}: no such file; data set {dataset!r} is made of it: give its folder with --inputs, "
            "or a finished corpus.parquet with --corpus"
        )
    spec = settings.model_dump(mode="json")
    folder = Path("work") / "score" / f"{dataset}-{value_hash([spec, str(inputs.resolve())])[:8]}"
    if not (folder / CORPUS).exists():
        build_corpus(name=dataset, spec=settings, inputs=inputs, out=folder)
    return folder / CORPUS


@SCORES.command(
    "recap scores import answer.json --submission reports/mine/server/mine_t2_wide --date 2026-11-24",
    name="import",
    calls="recap.share.coco_server:import_answer",
)
def import_(
    answer: Annotated[Path, "the answer: JSON, or text with a score a line", "FILE"],
    /,
    *,
    submission: Annotated[Path, "folder of what was sent, with its captions"],
    day: Annotated[date, Option("of the answer", "YYYY-MM-DD", flag="--date", parse=date.fromisoformat)],
) -> None:
    """Import the answer of COCO's caption server into a table."""
