"""Reads captions that another program made: one per image, in COCO's results form, as JSON lines, or as CSV.

An image is named by its id, or by the name of its picture with or without folders.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from recap.core.errors import DataError, first_line
from recap.core.log import log
from recap.core.process.memory import limited_memory
from recap.data.corpus.corpus import Corpus
from recap.data.vocabulary.text import is_storable, tokenize

MAX_CHARACTERS = 10_000  # of one caption
_FILE_KEYS = ("file", "image", "file_name", "filename")
_FORMS = "COCO's results form, a JSON object per line, or CSV"


@limited_memory()
def read_captions(path: Path, corpus: Corpus, split: str) -> dict[int, str]:
    """Return a caption for each image of a split: image id -> caption, ids rising.

    Captions of other splits of the data set are left out, which is logged: a file of COCO's val2014 holds three.
    """
    names = _image_names(corpus)
    known, wanted = frozenset(corpus.image_ids()), corpus.image_ids(split)
    found: dict[int, str] = {}
    for where, entry in _entries(path, _text(path)):
        image = _image_id(entry, names, known, corpus.dataset, where)
        if image in found:
            raise DataError(f"{where}: image {image} has a caption above; give one caption per image")
        found[image] = _caption(entry, image, where)
    missing = [image for image in wanted if image not in found]
    if missing:
        raise DataError(
            f"{path}: no caption of image {missing[0]} ({len(missing):,} of {len(wanted):,} images of the split "
            f"{split!r} have none); scores of a part are not comparable, so add them"
        )
    if len(found) > len(wanted):
        log.info(f"{path}: {len(found) - len(wanted):,} captions of other splits than {split!r} are left out")
    return {image: found[image] for image in wanted}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start:,} is not UTF-8; save the file as UTF-8") from error
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file; name the file of captions") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); name a file of captions") from error


def _entries(path: Path, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each entry with its place in the file, for messages."""
    begin = text.lstrip()[:1]
    if not begin:
        raise DataError(f"{path}: empty; give {_FORMS}")
    if begin == "[":
        yield from ((f"{path}: entry {number}", entry) for number, entry in enumerate(_json(text, str(path)), 1))
    elif begin == "{":
        lines = ((f"{path}: line {number}", line) for number, line in enumerate(text.split("\n"), 1) if line.strip())
        yield from ((where, _json(line, where)) for where, line in lines)
    else:
        yield from _csv_entries(path, text)


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not valid JSON ({first_line(error)}); give {_FORMS}") from error


def _csv_entries(path: Path, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    head = text.split("\n", 1)[0]
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=head.count), strict=True)
    line = 1
    try:
        columns = [name.strip() for name in reader.fieldnames or []]
        reader.fieldnames = columns
        if "caption" not in columns or not {"image_id", *_FILE_KEYS} & set(columns):
            raise DataError(
                f"{path}: line 1: the columns must be image_id (or file) and caption, but are "
                f"{', '.join(columns)[:100]!r}; name them so, or give {_FORMS}"
            )
        line = 2
        for row in reader:
            if None in row or None in row.values():
                raise DataError(
                    f"{path}: line {line}: not {len(columns)} columns as in line 1; put double quotes "
                    "around a caption with a separator in it"
                )
            number = row.get("image_id", "").strip()
            whole = number.lstrip("-").isdecimal() and len(number) < 20
            yield f"{path}: line {line}", {**row, **({"image_id": int(number)} if whole else {})}
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}: line {line}: not a valid CSV row ({error}); correct it") from error


def _image_names(corpus: Corpus) -> dict[str, int | None]:
    """Return picture's name, with and without folders -> image id; None where two images share it."""
    found: dict[str, int | None] = {}
    for image, views in corpus.views().items():
        for name in {name for view in views for name in (view, view.rpartition("/")[2])}:
            found[name] = image if found.get(name, image) == image else None
    return found


def _image_id(entry: Any, names: Mapping[str, int | None], known: frozenset[int], dataset: str, where: str) -> int:
    if not isinstance(entry, Mapping):
        raise DataError(f"{where}: {_shown(entry)} is no object with image_id and caption; give {_FORMS}")
    if "image_id" in entry:
        image = entry["image_id"]
        if type(image) is not int:
            raise DataError(f"{where}: image_id {_shown(image)} is no whole number; give the id of an image")
        if image not in known:
            raise DataError(f"{where}: data set {dataset!r} has no image {image}; leave it out")
        return image
    name = next((entry[key] for key in _FILE_KEYS if key in entry), None)
    if not isinstance(name, str) or not name.strip():
        raise DataError(f"{where}: no image_id and no file; name the image of each caption")
    name = name.strip().removeprefix("./")
    if name not in names:
        raise DataError(f"{where}: data set {dataset!r} has no picture {_shown(name)}; leave it out")
    found = names[name]
    if found is None:
        raise DataError(f"{where}: several pictures are called {_shown(name)}; name them with their folders")
    return found


def _caption(entry: Mapping[str, Any], image: int, where: str) -> str:
    caption = entry.get("caption")
    if not isinstance(caption, str):
        raise DataError(f"{where}: the caption of image {image} is {_shown(caption)}, not a text; correct it")
    if not tokenize(caption):
        raise DataError(f"{where}: the caption of image {image} is empty or has no word in it; write one")
    if not is_storable(caption):
        raise DataError(f"{where}: the caption of image {image} is not valid Unicode; correct it")
    if len(caption) > MAX_CHARACTERS:
        raise DataError(
            f"{where}: the caption of image {image} has {len(caption):,} characters, more than {MAX_CHARACTERS:,}; "
            "shorten it"
        )
    return caption


def _shown(value: Any) -> str:
    """Return a wrong value, cut short."""
    return repr(value)[:60]
