"""Reads the captions of the systems that a study compares."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from recap.core.checksums import check
from recap.core.documents import read_json
from recap.core.errors import DataError
from recap.data.corpus import Corpus
from recap.reporting.text import plain
from recap.settings import Study

EMPTY = "(empty caption)"
Captions = dict[str, dict[str, dict[int, str]]]  # setup -> system -> image id -> caption


def read_captions_of(
    study: Study, files: Mapping[tuple[str, str], Path], references: Mapping[int, list[str]]
) -> Captions:
    """Read the captions of every setup and system that is a model.

    Args:
        study: names setups and systems.
        files: (setup, system) -> file in COCO's results form, as ``captions.test.json``.
        references: of the test split, whose images the captions must cover.
    """
    needed = [(setup.id, system.id) for setup in study.setups for system in study.systems if not system.reference]
    missing = [pair for pair in needed if pair not in files]
    if missing:
        raise DataError(f"no captions of {'/'.join(missing[0])}; give them with --captions {'/'.join(missing[0])}=FILE")
    unknown = [pair for pair in files if pair not in needed]
    if unknown:
        asked = ", ".join("/".join(pair) for pair in needed)
        raise DataError(f"--captions {'/'.join(unknown[0])}: the study asks for {asked}")
    found: Captions = {}
    for setup, system in needed:
        path = files[setup, system]
        captions = read_captions_file(path)
        if set(captions) != set(references):
            raise DataError(f"{path}: its images are not those of the test split of the corpus; caption that split")
        found.setdefault(setup, {})[system] = captions
    return found


def reference_captions(corpus: Corpus, split: str, *, raw: bool) -> dict[int, list[str]]:
    """Return the reference captions of each image as raters see them, each on one line.

    Args:
        corpus: the corpus.
        split: of the images.
        raw: as people wrote them; else the words of the corpus, as models write: capitals and full stops would tell
            raters which captions are of people.
    """
    if raw:
        texts = {image: list(map(plain, captions)) for image, captions in corpus.captions(split).items()}
    else:
        ids = corpus.caption_ids(split)
        texts = {}
        for image, words in zip(corpus.image_ids_of(ids), corpus.token_lists(ids), strict=True):
            texts.setdefault(image, []).append(plain(" ".join(words)))
    return {image: [text or EMPTY for text in captions] for image, captions in texts.items()}


def read_captions_file(path: Path) -> dict[int, str]:
    """Return the captions of a file in COCO's results form: image id -> caption on one line."""
    check(path)
    found: dict[int, str] = {}
    entries = read_json(path)
    for entry in entries if isinstance(entries, list) else [None]:
        if not (
            isinstance(entry, dict) and isinstance(entry.get("image_id"), int) and isinstance(entry.get("caption"), str)
        ):
            raise DataError(f'{path}: not a list of {{"image_id": number, "caption": text}}; name a captions.test.json')
        if entry["image_id"] in found:
            raise DataError(f"{path}: image {entry['image_id']} is duplicated; remove one of its captions")
        found[entry["image_id"]] = plain(entry["caption"]) or EMPTY
    return found
