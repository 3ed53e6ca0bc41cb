"""Texts without pictures, for language models: captions of other data sets, or of invented scenes."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from recap.core.errors import DataError
from recap.core.files import reading
from recap.core.hashing import generator
from recap.core.process import limited_memory
from recap.data.corpus import Corpus
from recap.data.datasets.scene_captions import describe
from recap.data.datasets.scenes import distinct_scenes
from recap.data.files.entries import read_jsons
from recap.data.tokenizer import tokenize
from recap.settings.models import LanguageModel, SceneTexts


@dataclass(frozen=True)
class Texts:
    """The words of texts, each once."""

    tokens: list[list[str]]  #: words of each text, in the order of the sources
    read: int  #: number of texts in the sources
    in_corpus: int  #: how many of the different ones were left out because the data set has them


@limited_memory()
def texts_outside(spec: LanguageModel, *, corpus: Path, inputs: Path) -> Texts:
    """Return the different texts that a data set does not have, in any split; words as `tokenize` gives them."""
    own = {" ".join(tokens) for tokens in Corpus.read(corpus).each_token_list(None)}
    every = chain(chain.from_iterable(read_texts(inputs / name) for name in spec.texts), _of_scenes(spec.scenes))
    count, shared, texts = 0, 0, dict[str, None]()  # in order, each once
    for text in every:
        count += 1
        words = " ".join(tokenize(text))
        if words and words in own:
            shared += 1
        elif words:
            texts[words] = None
    if not texts:
        raise DataError(f"none of {count} texts is left: all are empty or in {corpus}; name other `texts`")
    return Texts([text.split() for text in texts], count, shared)


def _of_scenes(spec: SceneTexts | None) -> Iterator[str]:
    for number, scene in enumerate(distinct_scenes(spec.count, spec.max_per_kind, spec.seed) if spec else ()):
        yield from describe(scene, random=generator(spec.seed, "captions", number))  # type: ignore[union-attr]


def read_texts(path: Path) -> Iterator[str]:
    """Yield the texts of a file: .txt, .tsv (either also .gz), COCO's .json or .zip."""
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if suffix in (".json", ".zip"):
        for name, content in read_jsons(path, "captions_*.json").items():
            try:
                yield from (str(entry["caption"]) for entry in content["annotations"])
            except (KeyError, TypeError) as error:
                raise DataError(f"{path}: {name} holds no annotations with captions ({error}); name COCO's") from error
        return
    if suffix not in (".txt", ".tsv"):
        raise DataError(f"{path}: texts are read from .txt, .tsv, .json and .zip; rename or convert it")
    with (
        reading(path, DataError, missing="correct `texts` or the inputs folder", damaged="fetch it again"),
        (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines,
    ):
        yield from (line.partition("\t")[0] if suffix == ".tsv" else line for line in lines)
