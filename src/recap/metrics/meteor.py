"""METEOR 1.5 (Denkowski and Lavie 2014) by its jar,
with the part of its table of paraphrases that can match.

The jar speaks lines: ``SCORE ||| ref ||| ... ||| hypothesis`` gives the statistics of one image,
and ``EVAL ||| stats ||| stats ...`` gives one score per image and the score of the corpus, which is
no mean of these.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Sequence
from itertools import chain, compress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar, Literal

from recap.core.errors import MetricError
from recap.metrics.base import Captions
from recap.metrics.coco import CocoMetric
from recap.metrics.java import java_program, package_folder

# Two gibibytes is what the reference asks for. The rest is measured: the parallel collector's
# threads take the other core from the scorers that run beside METEOR, and the second compiler costs
# more than it gains in so short a run.
_JVM_OPTIONS = ("-Xmx2G", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# and the table's place
_ARGUMENTS = ("-jar", "meteor-1.5.jar", "-", "-", "-stdio", "-l", "en", "-norm", "-a")
_LONGEST = 7  # words of a phrase in the table
_PIECES = re.compile(r"\w+")
_CHUNK = 1 << 22  # bytes


class Meteor(CocoMetric):
    """METEOR of images, and its own aggregate of the corpus."""

    names: ClassVar[tuple[str, ...]] = ("METEOR",)
    needs: ClassVar[frozenset[Literal["java", "pictures"]]] = frozenset({"java"})

    def _compute(self, captions: Captions) -> Sequence[tuple[float, Sequence[float]]]:
        folder = package_folder("meteor")
        texts = captions.tokenized
        # Tokens hold neither a line break nor `|||`, which would shift all answers.
        requests = [
            " ||| ".join(("SCORE", *texts.references[i], hypothesis.replace("  ", " ")))
            for i, hypothesis in texts.hypotheses.items()
        ]
        with TemporaryDirectory(prefix="recap-meteor-") as scratch:
            table = Path(scratch).resolve() / "paraphrases.gz"
            all_texts = chain(texts.hypotheses.values(), *texts.references.values())
            write_matching(folder / "data" / "paraphrase-en.gz", all_texts, table)
            arguments = [*_JVM_OPTIONS, *_ARGUMENTS, str(table)]
            with java_program(arguments, java=captions.java, cwd=folder, what="METEOR") as jar:
                statistics = jar.exchange(requests, answers=len(requests))
                answers = jar.exchange(
                    [" ||| ".join(("EVAL", *statistics))], answers=len(requests) + 1
                )
        try:
            *values, corpus = map(float, answers)
        except ValueError as error:
            raise MetricError(
                f"METEOR answered {answers[-1][:80]!r} where a score was expected"
            ) from error
        return [(corpus, values)]


def write_matching(table: Path, texts: Iterable[str], out: Path) -> None:
    """Write a table's entries (probability, phrase, paraphrase) whose phrases are in the texts."""
    phrases = _phrases(texts)
    with gzip.open(table) as source, gzip.open(out, "wb", compresslevel=1) as target:
        rest = b""
        # split at once: reading line by line takes four times as long
        while chunk := source.read(_CHUNK):
            lines = (rest + chunk).split(b"\n")
            end = (len(lines) - 1) // 3 * 3
            rest = b"\n".join(lines[end:])
            for place in compress(range(0, end, 3), map(phrases.__contains__, lines[1:end:3])):
                if lines[place + 2] in phrases:
                    target.write(b"\n".join([*lines[place : place + 3], b""]))


def _phrases(texts: Iterable[str]) -> set[bytes]:
    """Return every phrase of the texts, also without punctuation, at which METEOR splits."""
    forms = set()
    for text in texts:
        forms.add(tuple(text.lower().split()))
        forms.add(tuple(_PIECES.findall(text.lower())))
    phrases = set()
    for words in forms:
        for start in range(len(words)):
            for end in range(start + 1, min(len(words), start + _LONGEST) + 1):
                phrases.add(" ".join(words[start:end]).encode())
    return phrases
