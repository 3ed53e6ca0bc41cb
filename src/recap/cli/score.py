"""``recap score``: captions that any other program made."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from recap.cli.arguments import Arguments, add_params_folder
from recap.cli.parser import Commands, command
from recap.core.errors import ConfigError


def add_score(commands: Commands) -> None:
    """Add the command."""
    parser = command(
        commands,
        "score",
        _score,
        purpose="score a caption file of any other system with the same metrics",
        example="""
            recap score captions.json --dataset flickr8k
            recap score captions.csv --dataset mine --corpus results/mine/data/mine/corpus.parquet --out scores
        """,
    )
    parser.add_argument(
        "captions",
        type=Path,
        metavar="FILE",
        help="one caption per image: COCO's results form, JSON lines, {id: caption}, or CSV with the columns image_id "
        "(or file) and caption",
    )
    parser.add_argument("--dataset", required=True, metavar="NAME", help="data set (`recap params list datasets`)")
    parser.add_argument("--split", default="test", metavar="NAME", help="whose images are scored (test)")
    parser.add_argument(
        "--corpus",
        type=Path,
        metavar="PATH",
        help="corpus.parquet of the data set (default: that of a profile, else it is made of --inputs)",
    )
    parser.add_argument(
        "--inputs",
        type=Path,
        default=Path("resources"),
        metavar="PATH",
        help="folder of the data set's files (resources)",
    )
    parser.add_argument("--metrics", nargs="+", metavar="NAME", help="(BLEU METEOR ROUGE-L CIDEr SPICE)")
    parser.add_argument("--out", type=Path, metavar="PATH", help="folder for metrics.json and the scores per image")
    add_params_folder(parser)


def _score(a: Arguments) -> None:
    from recap.evaluation.caption_file import score_file, scores_text
    from recap.settings.metrics import COCO

    corpus = a.corpus or _corpus(a.dataset, a.params, a.inputs)
    with TemporaryDirectory(prefix="recap-score-") as temporary:
        out = a.out or Path(temporary)
        scores = score_file(captions=a.captions, corpus=corpus, split=a.split, metrics=a.metrics or COCO, out=out)
        print(scores_text(scores, out))


def _corpus(dataset: str, params: Path, inputs: Path) -> Path:
    """Return the corpus of a data set: one that a profile has, else one made now of the data set's files.

    Raises:
        ConfigError: profiles have different ones, or files of the data set are missing.
    """
    from recap.core.hashing import value_hash
    from recap.data.corpus.build import CORPUS, build_corpus
    from recap.data.corpus.corpus import Corpus
    from recap.settings.params import load_named

    settings = load_named(params, "datasets", dataset)
    made = sorted(Path("results").glob(f"*/data/{dataset}/{CORPUS}"))
    if len({Corpus.read(path).split_hash for path in made}) > 1:
        raise ConfigError(f"--dataset {dataset}: {' and '.join(map(str, made))} differ; name one with --corpus")
    if made:
        return made[0]
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
