"""Options that several commands share, as types of their parameters."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from recap.cli.frame import Option, Section

if TYPE_CHECKING:
    from recap.settings import ExecutionFile

SPEC = "settings: a file of JSON, - for standard input, or the JSON object itself"
CORPUS = "corpus.parquet of the data set"
VOCABULARY = "vocabulary.json of the data set"
FEATURES = "feature stores (.h5) of the data set's pictures: one, or several whose streams a model reads together"
SUBSET = "training captions: subset.json of a profile"
IMAGES = "folders or zips with the pictures"
EXECUTION = (
    "YAML with device, threads, compile, activation_checkpointing, features_in_memory, checkpoint_minutes, "
    "keep_state, for `train` also max_steps, overfit_one_batch (default: a GPU if there is one, one thread)"
)
PROFILE = "name of a paper or profile (demo), or the YAML of a profile"
RUN_FILES = Section("files of a run that lies outside of its results")

Corpus = Annotated[Path, Option(CORPUS)]
Vocabulary = Annotated[Path, Option(VOCABULARY)]
Features = Annotated[Sequence[Path], Option(FEATURES)]
Images = Annotated[Sequence[Path], Option(IMAGES)]
SomeImages = Annotated[Sequence[Path], Option(IMAGES, count="*")]
Models = Annotated[Sequence[Path], Option("run folder; several are an ensemble")]
Inputs = Annotated[Path, Option("folder that the files named in --spec are relative to")]
InputsFolder = Annotated[str | None, Option("folder of the outside files (default: the profile's)", "PATH")]
Subset = Annotated[Path, Option(SUBSET)]
Params = Annotated[Path, Option("folder of the parameter files (params)")]
Device = Annotated[Literal["auto", "cpu", "cuda"], Option("auto (default): a GPU if there is one")]
Threads = Annotated[int, Option("CPU threads (2)", "N")]
Profile = Annotated[str, Option(PROFILE)]
ScaleOfProfile = Annotated[str | None, Option("a scale of the profile (default: `paper`, or its first)", "NAME")]
Execution = Annotated[Path | None, Option(EXECUTION, "FILE")]
RunVocabulary = Annotated[Path | None, Option("vocabulary.json", section=RUN_FILES)]
RunFeatures = Annotated[Sequence[Path], Option("feature stores (.h5)", section=RUN_FILES)]
RunWeights = Annotated[Path | None, Option("weights of what made the features", section=RUN_FILES)]


def mapping(text: str) -> dict[str, Any]:
    """Return the JSON object of a file, of standard input (``-``), or of the words themselves (``{...}``)."""
    try:
        if not text.lstrip().startswith(("{", "[")):
            text = sys.stdin.read() if text == "-" else Path(text).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text}: cannot be read ({error}); name a file of JSON") from error
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise argparse.ArgumentTypeError("nested too deeply; give a flat JSON object") from error
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError('expected a JSON object: {"key": value, ...}')
    return value


def spec_of(keys: str, *, section: Section | None = None) -> Option:
    """Return the option ``--spec``, checked by the class of ``recap.settings.specs`` that ``keys`` names."""
    return Option(SPEC, "FILE", parse=mapping, spec=keys, section=section)


def read_execution(file: Path | None) -> "ExecutionFile":
    """Return how a job is to be computed, from the YAML file of ``--execution``."""
    from recap.settings import ExecutionFile
    from recap.settings.params import read_mapping, validate

    execution: ExecutionFile = validate(ExecutionFile, read_mapping(file) if file else {}, str(file))
    return execution


def print_columns(rows: list[list[str]]) -> None:
    """Print rows with aligned columns; a column without any text is left out."""
    widths = [max(map(len, column), default=0) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True) if width).rstrip())
