"""Captions of photos as text for people, as JSON lines and as CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from recap.captioning.captioner import PhotoCaptions
from recap.core.files import no_formula
from recap.reporting.text import plain

Written = Callable[[Iterable[PhotoCaptions]], Iterator[str]]
_COLUMNS = ("file", "rank", "caption", "log_probability")


def pretty(results: Iterable[PhotoCaptions]) -> Iterator[str]:
    """Yield a line a photo; of several captions each on a line of its own, with its log-probability."""
    for result in results:
        if len(result.captions) == 1:
            yield f"{plain(result.photo)}: {plain(result.caption)}\n"
            continue
        yield f"{plain(result.photo)}:\n"
        yield from (f"{caption.log_probability:9.3f}  {plain(caption.text)}\n" for caption in result.captions)


def json_lines(results: Iterable[PhotoCaptions]) -> Iterator[str]:
    """Yield a JSON object a line and photo: file, caption, log_probability, and n_best where there are several."""
    for result in results:
        values: dict[str, Any] = {"file": result.photo, "caption": result.caption}
        values["log_probability"] = result.log_probability
        if len(result.captions) > 1:
            values["n_best"] = [
                {"caption": caption.text, "log_probability": caption.log_probability, "score": caption.score}
                for caption in result.captions
            ]
        yield json.dumps(values, ensure_ascii=False) + "\n"


def comma_separated(results: Iterable[PhotoCaptions]) -> Iterator[str]:
    """Yield a heading, then a line a caption; text that a spreadsheet would take for a formula is quoted."""
    yield _row(_COLUMNS)
    for result in results:
        for rank, caption in enumerate(result.captions, start=1):
            text = (no_formula(plain(result.photo)), rank, no_formula(plain(caption.text)))
            yield _row((*text, repr(caption.log_probability)))


def _row(cells: Iterable[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


FORMATS: dict[str, Written] = {"pretty": pretty, "jsonl": json_lines, "csv": comma_separated}
