"""Captions that another program made, one per image, from JSON or a table; and texts without
pictures.

An image is named by its id, or by the name of its picture, with or without folders and extension.
"""

from __future__ import annotations

import gzip
import json
import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from recap.core.errors import DataError, first_line
from recap.core.files import reading
from recap.core.hashing import generator
from recap.core.log import log
from recap.core.process import limited_memory
from recap.data.corpus import Corpus
from recap.data.datasets.scene_captions import describe
from recap.data.datasets.scenes import distinct_scenes
from recap.data.files.entries import Entry, String, csv_rows, parsed, read_jsons
from recap.data.tokenizer import is_storable, tokenize
from recap.settings.models import LanguageModel, SceneTexts

MAX_CHARACTERS = 10_000  # of one caption
_CAPTIONS = ("generatedtext", "text", "pred")  # what else may hold a caption
# What names an image, in small letters alone.
# `id` does where nothing else does: in COCO's files it numbers captions.
_KEYS = ("imageid", "imgid", "file", "filename", "image", "imagename", "imagefile", "imagepath")
_FORMS = "COCO's results form, a JSON object per line, {id: caption}, or CSV"
# pandas writes 20.0 where an id of the column is missing
_WHOLE = re.compile(r"(0|-?[1-9][0-9]*)(?:\.0+)?")
_MARKS = re.compile(
    r"</?s>|<(?:bos|sos|eos|unk|pad|start|end)>|\[(?:CLS|SEP|UNK|PAD)\]|<\|\w+\|>", re.IGNORECASE
)


@limited_memory()
def read_captions(path: Path, corpus: Corpus, split: str) -> dict[int, str]:
    """Return a caption for each image of a split: image id -> caption, ids rising.

    Captions of other splits of the data set are left out, which is logged: a file of COCO's val2014
    holds three.
    """
    images = _Images(corpus)
    wanted = corpus.image_ids(split)
    captions: dict[int, str] = {}
    for where, entry in _entries(path):
        fields = _fields(entry.items(), where)
        image = images.named(fields, where)
        if image in captions:
            raise DataError(
                f"{where}: image {image} has a caption above; give one caption per image"
            )
        captions[image] = _text(fields.get("caption"), f"{where}: the caption of image {image}")
    if missing := [image for image in wanted if image not in captions]:
        raise DataError(
            f"{path}: no caption of image {missing[0]} ({len(missing):,} of {len(wanted):,} images "
            f"of the split {split!r} have none); scores of a part are not comparable, so add them"
        )
    if len(captions) > len(wanted):
        log.info(
            f"{path}: {len(captions) - len(wanted):,} captions of other splits than {split!r} are "
            "left out"
        )
    captions = {image: captions[image] for image in wanted}
    _warn_of_words(captions, path)
    return captions


def _text(value: Any, what: str) -> str:
    """Return a caption, which may be the only one of a list."""
    caption = value[0] if isinstance(value, list) and len(value) == 1 else value
    if isinstance(caption, str) and is_storable(caption) and len(caption) <= MAX_CHARACTERS:
        return caption
    raise DataError(
        f"{what}, {value!r:.60}, is no Unicode text of at most {MAX_CHARACTERS:,} characters under "
        "the key 'caption'"
    )


def _warn_of_words(captions: Mapping[int, str], path: Path) -> None:
    """Warn of captions without words, or with marks that count as words."""
    if wordless := [image for image, caption in captions.items() if not tokenize(caption)]:
        log.warning(
            f"{path}: {len(wordless):,} captions without a word count, the first of image "
            f"{wordless[0]}"
        )
    if marked := [caption for caption in captions.values() if _MARKS.search(caption)]:
        log.warning(
            f"{path}: {len(marked):,} captions have marks that are words, e.g. {marked[0]!r:.80}; "
            "cut them"
        )


def _entries(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each entry with its place in the file, for messages."""
    with reading(
        path, DataError, missing="name the file of captions", damaged="save the file as UTF-8"
    ):
        text = path.read_text(encoding="utf-8-sig")
    if text.lstrip()[:1] not in ("[", "{"):
        rows = csv_rows(path, ",;\t|", skipinitialspace=True)
        columns = next(rows)[1]
        names = _fields([(column, "") for column in columns], f"{path}: line 1")
        if "caption" not in names or len(names) < 2:
            raise DataError(
                f"{path}: line 1: the columns must be image_id (or file) and caption, but are "
                f"{', '.join(columns)[:100]!r}; name them so, or give {_FORMS}"
            )
        for line, cells in rows:
            yield f"{path}: line {line}", dict(zip(columns, cells, strict=True))
        return
    entries = _json_values(path, text)
    if len(entries) == 1:
        entries = _entries_of(entries[0], str(path))
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            raise DataError(
                f"{path}: entry {number}: {entry!r:.60} has no image_id and caption; give {_FORMS}"
            )
        yield f"{path}: entry {number}", entry


def _entries_of(value: Any, where: str) -> list[Any]:
    """Return the entries that the one value of a JSON file stands for."""
    if isinstance(value, list):
        return value
    if isinstance(value.get("annotations"), list):
        return list(value["annotations"])
    if "caption" in _fields(value.items(), where):
        return [value]
    return [{"image_id": key, "caption": text} for key, text in value.items()]


def _json_values(path: Path, text: str) -> list[Any]:
    """Return the JSON values that follow each other in a text, on a line each or indented."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            raise ValueError(f"a key of {pairs!r:.80} is there twice")
        return values

    decoder = json.JSONDecoder(object_pairs_hook=once)
    values, end = [], 0
    try:
        while begin := re.compile(r"\S").search(text, end):
            value, end = decoder.raw_decode(text, begin.start())
            values.append(value)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not valid JSON ({first_line(error)}); give {_FORMS}") from error
    return values


def _fields(entry: Iterable[tuple[str, Any]], where: str) -> dict[str, Any]:
    """Return the caption of an entry and what names its image.

    Keys in small letters alone, texts stripped.
    """
    fields: dict[str, Any] = {}
    for key, value in entry:
        name = re.sub(r"[\W_]", "", key).lower()
        if name in fields:
            raise DataError(f"{where}: {key!r:.60} is there twice; leave one")
        if name in (*_KEYS, "id", "caption", *_CAPTIONS):
            fields[name] = value.strip() if isinstance(value, str) else value
    texts = [fields[name] for name in _CAPTIONS if name in fields]
    if len(texts) == 1:
        fields.setdefault("caption", texts[0])
    return fields


class _Images:
    """What may name an image of a corpus: its id and its pictures' names, also their bare stems."""

    def __init__(self, corpus: Corpus) -> None:
        self._dataset = corpus.dataset
        self._ids = {str(image): {image} for image in corpus.image_ids()}
        whole: defaultdict[str, set[int]] = defaultdict(set)
        stems: defaultdict[str, set[int]] = defaultdict(set)
        for image, views in corpus.views().items():
            for name in {*views, *map(posixpath.basename, views)}:
                whole[name].add(image)
                stems[posixpath.splitext(name)[0]].add(image)
        self._pictures = stems | whole

    def named(self, fields: Mapping[str, Any], where: str) -> int:
        """Return the image of an entry, on which all that names it must agree."""
        values = {key: fields[key] for key in _KEYS if fields.get(key) not in (None, "")} or {
            "id": fields.get("id")
        }
        images = set.intersection(
            *(self._candidates(str(value), key.endswith("id")) for key, value in values.items())
        )
        if len(images) != 1:
            raise DataError(
                f"{where}: {' and '.join(f'{value!r:.60}' for value in values.values())} are "
                f"{len(images) or 'no'} images of data set {self._dataset!r}, where one is "
                "needed; give its number as image_id, or as file a name with its folder like "
                f"{next(reversed(self._pictures), '')!r}"
            )
        return images.pop()

    def _candidates(self, text: str, by_id: bool) -> set[int]:
        if by_id and (whole := _WHOLE.fullmatch(text)):
            return self._ids.get(whole[1], set())
        name = text.replace("\\", "/")
        while name:
            if name in self._pictures:
                return self._pictures[name]
            name = name.partition("/")[2]  # without its first folder
        return self._ids.get(text.lstrip("0") or "0", set()) if by_id else set()


def filled_captions(ranked: Mapping[int, Sequence[str]], where: object) -> dict[int, str]:
    """Return the best caption of each image that is not empty,
    which a server of captions refuses; else a full stop.

    `ranked`: image id -> its captions, best first.
    """
    captions = {image: next(filter(str.strip, texts), ".") for image, texts in ranked.items()}
    changed = [image for image, texts in ranked.items() if captions[image] != texts[0]]
    if changed:
        log.warning(
            f"{where}: {len(changed):,} of {len(ranked):,} captions are empty, of images "
            f"{', '.join(map(str, changed[:10]))}; the next best caption of the search, or '.', is "
            "written instead"
        )
    return captions


# ---- texts without pictures, for language models


@dataclass(frozen=True)
class Texts:
    """The words of texts, each once."""

    tokens: list[list[str]]  #: words of each text, in the order of the sources
    read: int  #: number of texts in the sources
    in_corpus: int  #: how many of the different ones were left out because the data set has them


@limited_memory()
def texts_outside(spec: LanguageModel, *, corpus: Path, inputs: Path) -> Texts:
    """Return the different texts that a data set does not have, in any split.

    Words as `tokenize` gives them.
    """
    own = {" ".join(tokens) for tokens in Corpus.read(corpus).token_lists()}
    every = [read_texts(inputs / name) for name in spec.texts]
    count = 0
    shared = 0
    texts: dict[str, None] = {}  # in order, each once
    for text in chain(*every, _of_scenes(spec.scenes)):
        count += 1
        words = " ".join(tokenize(text))
        if words and words in own:
            shared += 1
        elif words:
            texts[words] = None
    if not texts:
        raise DataError(
            f"none of {count} texts is left: all are empty or in {corpus}; name other `texts`"
        )
    return Texts([text.split() for text in texts], count, shared)


def _of_scenes(spec: SceneTexts | None) -> Iterator[str]:
    if spec is None:
        return
    for number, scene in enumerate(distinct_scenes(spec.count, spec.max_per_kind, spec.seed)):
        yield from describe(scene, random=generator(spec.seed, "captions", number))


class _Annotation(Entry):
    caption: String


class _Annotations(Entry):
    annotations: list[_Annotation]


def read_texts(path: Path) -> Iterator[str]:
    """Yield the texts of a file: .txt, .tsv (either also .gz), COCO's .json or .zip."""
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if suffix in (".json", ".zip"):
        for name, content in read_jsons(path).items():
            for entry in parsed(_Annotations, content, f"{path}: {name}").annotations:
                yield entry.caption
        return
    if suffix not in (".txt", ".tsv"):
        raise DataError(
            f"{path}: texts are read from .txt, .tsv, .json and .zip; rename or convert it"
        )
    with (
        reading(
            path,
            DataError,
            missing="correct `texts` or the inputs folder",
            damaged="fetch it again",
        ),
        (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines,
    ):
        for line in lines:
            yield line.partition("\t")[0] if suffix == ".tsv" else line
