"""COCO's tokens and caption metrics by pycocoevalcap's scorers and jars;
fractions of 1, though CIDEr may exceed 1.

Its ``COCOEvalCap`` downloads, writes into site-packages and never exits after a Java error, so it
is not used.
"""

from __future__ import annotations

import re
import unicodedata
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from recap.core.errors import MetricError
from recap.data.tokenizer import marks
from recap.metrics.base import Captions, Gap, Metric, Result, Tokenized, sanitize
from recap.metrics.java import java_program, package_folder

# The tokens that COCO's evaluation drops.
PUNCTUATION = frozenset((
    "''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-",
    ".", "?", "!", ",", ":", "-", "--", "...", ";",
))  # fmt: skip


class CocoMetric(Metric):
    """A scorer of pycocoevalcap."""

    def version(self) -> dict[str, str]:
        """Return the version of the package."""
        return {"pycocoevalcap": version("pycocoevalcap")}

    def score(self, captions: Captions) -> Result:
        """Score tokenized captions; errors as of `Metric.score`."""
        result = Result({}, {})
        for name, (corpus, values) in zip(self.names, self._compute(captions), strict=True):
            result.corpus[name] = float(corpus)
            result.per_image[name] = dict(zip(captions.ids, map(float, values), strict=True))
        return result

    @abstractmethod
    def _compute(self, captions: Captions) -> Sequence[tuple[float, Sequence[float]]]:
        """Return, for each name, the corpus score and one score per image."""


class Bleu(CocoMetric):
    """BLEU-1 to BLEU-4 (Papineni et al. 2002); per image, sentence-level BLEU."""

    names: ClassVar[tuple[str, ...]] = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4")

    def _compute(self, captions: Captions) -> Sequence[tuple[float, Sequence[float]]]:
        from pycocoevalcap.bleu.bleu import Bleu as Scorer

        corpus, values = _computed(Scorer(4), captions, verbose=0)
        return list(zip(corpus, values, strict=True))


class RougeL(CocoMetric):
    """ROUGE-L (Lin 2004)."""

    names: ClassVar[tuple[str, ...]] = ("ROUGE-L",)

    def _compute(self, captions: Captions) -> Sequence[tuple[float, Sequence[float]]]:
        from pycocoevalcap.rouge.rouge import Rouge

        return [_computed(Rouge(), captions)]


class Cider(CocoMetric):
    """CIDEr (Vedantam et al. 2015)."""

    names: ClassVar[tuple[str, ...]] = ("CIDEr",)

    def _compute(self, captions: Captions) -> Sequence[tuple[float, Sequence[float]]]:
        from pycocoevalcap.cider.cider import Cider as Scorer

        if len(captions.ids) < 2:
            raise Gap("CIDEr weighs words by the images scored; one image alone always gives 0")
        return [_computed(Scorer(), captions)]


def _computed(scorer: Any, captions: Captions, **options: int) -> tuple[Any, Any]:
    """Return what a scorer gives for the corpus and for the images.

    It takes a list of one caption per image.
    """
    hypotheses = {image: [caption] for image, caption in captions.tokenized.hypotheses.items()}
    corpus, values = scorer.compute_score(captions.tokenized.references, hypotheses, **options)
    return corpus, values


def tokenize_captions(
    references: Mapping[int, Sequence[str]], hypotheses: Mapping[int, str], *, java: Path | None
) -> Tokenized:
    """Tokenize everything: by the PTB tokenizer, or by the simple one where there is no Java."""
    ids = sorted(hypotheses)
    first = list(chain.from_iterable(references[i] for i in ids))
    second = [hypotheses[i] for i in ids]
    if java is None:
        tokenizer = "simple"
        first = simple_tokenize(first)
        second = simple_tokenize(second)
    else:
        tokenizer = "ptb"
        first, second = ptb_tokenize(first, second, java=java)
    lines = iter(first)
    split = {i: list(islice(lines, len(references[i]))) for i in ids}
    return Tokenized(split, dict(zip(ids, second, strict=True)), tokenizer)


def simple_tokenize(captions: Sequence[str]) -> list[str]:
    """Return captions as lower-case words joined by single spaces.

    Scores differ slightly from the PTB tokenizer's.
    """
    letters = rf"\w+(?:[{marks()}]+\w*)*"
    words = re.compile(rf"{letters}(?:['’-]{letters})*")
    return [
        " ".join(words.findall(unicodedata.normalize("NFC", sanitize(caption)).lower()))
        for caption in captions
    ]


def ptb_tokenize(*lists: Sequence[str], java: Path) -> list[list[str]]:
    """Return captions as COCO tokenizes them: lower case, PTB tokens, no punctuation."""
    with TemporaryDirectory(prefix="recap-ptb-") as name:
        folder = Path(name)
        # A file for each list, as in pycocoevalcap, and no line break at its end:
        # the lexer looks ahead over line ends.
        for number, captions in enumerate(lists):
            (folder / f"{number}.in").write_bytes(
                "\n".join(map(sanitize, captions)).encode("utf-8")
            )
        (folder / "files").write_text(
            "".join(f"{number}.in {number}.out\n" for number in range(len(lists)))
        )
        jar = package_folder("tokenizer") / "stanford-corenlp-3.4.1.jar"
        arguments = ["-XX:+UseSerialGC", "-cp", str(jar), "edu.stanford.nlp.process.PTBTokenizer"]
        arguments += ["-preserveLines", "-lowerCase", "-ioFileList", "files"]
        with java_program(arguments, java=java, cwd=folder, what="the PTB tokenizer") as ptb:
            ptb.finish()
        tokenized = []
        for number, captions in enumerate(lists):
            output = (folder / f"{number}.out").read_bytes().decode("utf-8", "replace")
            lines = [_words(line) for line in output.split("\n")]
            if len(lines) != len(captions):
                raise MetricError(
                    f"the PTB tokenizer made {len(lines)} lines of {len(captions)} captions; one "
                    "holds a character that it takes for a line end"
                )
            tokenized.append(lines)
    return tokenized


def _words(line: str) -> str:
    return " ".join(token for token in line.rstrip().split(" ") if token not in PUNCTUATION)
