"""Tokenizers of the scores: Stanford's PTB tokenizer as in COCO's evaluation, and a named simple one without Java."""

from __future__ import annotations

import re
import tempfile
import unicodedata
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from recap.core.errors import MetricError
from recap.data.vocabulary.text import marks
from recap.metrics.java import run_java
from recap.metrics.sanitize import sanitize

# The tokens that COCO's evaluation drops.
PUNCTUATION = frozenset(
    ["''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-", ".", "?", "!", ",", ":", "-", "--", "...", ";"]
)


def simple_tokenize(captions: Sequence[str]) -> list[str]:
    """Return captions as lower-case words joined by single spaces; scores differ slightly from the PTB tokenizer's."""
    letters = rf"\w+(?:[{marks()}]+\w*)*"
    words = re.compile(rf"{letters}(?:['’-]{letters})*")
    return [" ".join(words.findall(unicodedata.normalize("NFC", sanitize(caption)).lower())) for caption in captions]


def ptb_tokenize(captions: Sequence[str], *, java: Path, jar: Path, timeout_seconds: float) -> list[str]:
    """Return captions as COCO's evaluation tokenizes them: lower case, PTB tokens, punctuation dropped."""
    if not captions:
        return []
    with tempfile.TemporaryDirectory(prefix="recap-ptb-") as folder:
        source = Path(folder) / "captions.txt"
        # No line break at the end, as in pycocoevalcap: the lexer looks ahead over line ends.
        source.write_bytes("\n".join(sanitize(caption) for caption in captions).encode("utf-8"))
        output = run_java(
            java=java,
            arguments=["-XX:+UseSerialGC", "-cp", str(jar), "edu.stanford.nlp.process.PTBTokenizer"]
            + ["-preserveLines", "-lowerCase", str(source)],
            cwd=Path(folder),
            timeout_seconds=timeout_seconds,
            what="the PTB tokenizer",
        )
    lines = output.split("\n")
    if len(lines) != len(captions):
        raise MetricError(
            f"the PTB tokenizer made {len(lines)} lines of {len(captions)} captions; "
            "one of them holds a character that it takes for a line end"
        )
    return [" ".join(token for token in line.rstrip().split(" ") if token not in PUNCTUATION) for line in lines]


def ptb_tokenize_both(
    first: Sequence[str], second: Sequence[str], *, java: Path, jar: Path, timeout_seconds: float
) -> tuple[list[str], list[str]]:
    """Tokenize references and hypotheses at the same time, apart as in pycocoevalcap (see :func:`ptb_tokenize`)."""
    with ThreadPoolExecutor(2) as pool:
        jobs = [
            pool.submit(ptb_tokenize, captions, java=java, jar=jar, timeout_seconds=timeout_seconds)
            for captions in (first, second)
        ]
        return jobs[0].result(), jobs[1].result()
