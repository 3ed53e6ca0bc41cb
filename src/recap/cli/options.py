"""Options that several commands share, and what is read and printed alike."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from recap.core.errors import MissingFile, aligned

if TYPE_CHECKING:
    from recap.settings import ExecutionFile

Device = Literal["auto", "cpu", "cuda"]
Paths = Sequence[Path]
PARAMS, RESULTS = Path("params"), Path("results")
SNAKEFILE = Path(__file__).resolve().parents[3] / "Snakefile"


@dataclass(frozen=True)
class Section:
    """Options under a heading of their own on the help page."""

    title: str
    description: str | None = None


def mapping(text: str) -> dict[str, Any]:
    """Return the JSON object of a file, of standard input (``-``), or of the text (``{...}``)."""
    try:
        if not text.lstrip().startswith(("{", "[")):
            text = sys.stdin.read() if text == "-" else Path(text).read_text(encoding="utf-8")
        value = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(
            f"{text:.60}: cannot be read as JSON ({error}); name a file, or give an object"
        ) from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError('expected a JSON object: {"key": value, ...}')
    return value


def above_0(kind: Callable[[str], float]) -> dict[str, Any]:
    """Return what lets an option take numbers above 0 alone."""

    def read(text: str) -> float:
        number = kind(text)
        if number <= 0:
            raise argparse.ArgumentTypeError(f"{text}: must be above 0")
        return number

    read.__name__ = kind.__name__  # for argparse's own message
    return {"type": read}


# by the parameter's name
HELP = {
    "corpus": "corpus.parquet of the data set",
    "vocabulary": "vocabulary.json of the data set",
    "features": (
        "feature stores (.h5) of the data set's pictures: one, or several whose streams a model "
        "reads together"
    ),
    "subset": "training captions: subset.json of a profile",
    "images": "folders or zips with the pictures",
    "model": "run folder; several are an ensemble",
    "inputs": "folder that the files named in --spec are relative to",
    "params": "folder of the parameter files (params)",
    "state": "folder of the resumable state: the same command continues from it",
    "device": "auto (default): a GPU if there is one",
    "threads": "CPU threads (2)",
    "profile": "name of a paper or profile (demo), or the YAML of a profile",
    "scale": "a scale of the profile (default: `paper`, or its first)",
    "results": "folder of the profiles (results)",
}
EXECUTION = (
    "YAML with device, threads, compile, activation_checkpointing, checkpoint_minutes, "
    "for `train` also max_steps, overfit_one_batch (default: a GPU if there is one, "
    "one thread)"
)
SPEC = "settings: a file of JSON, - for standard input, or the JSON object itself"
SHARED: dict[str, dict[str, Any]] = {
    **{name: {"help": text} for name, text in HELP.items()},
    "spec": {"help": SPEC, "metavar": "FILE", "type": mapping},
    "execution": {"help": EXECUTION, "metavar": "FILE"},
}
InputsFolder = Annotated[str | None, "folder of the outside files (default: the profile's)", "PATH"]


def read_execution(file: Path | None) -> "ExecutionFile":
    """Return how a job is to be computed, from the YAML file of ``--execution``."""
    from recap.settings import ExecutionFile
    from recap.settings.params import read_mapping, validate

    return validate(ExecutionFile, read_mapping(file) if file else {}, str(file))


def snakefile(purpose: str) -> Path:
    """Return the workflow of the clone that this is installed from."""
    if not SNAKEFILE.exists():
        raise MissingFile(
            f"{SNAKEFILE}: no such file; {purpose} needs a clone of recap, installed with `make "
            "install`"
        )
    return SNAKEFILE


def print_columns(rows: list[list[str]]) -> None:
    """Print rows with aligned columns; a column without any text is left out."""
    for line in aligned(rows):
        print(line)
