"""Brings in what COCO's caption server answered: JSON, or lines of text, with c5 and c40 of each metric."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from recap.core.errors import DamagedData, DataError, MissingData
from recap.core.files.checksums import check, record
from recap.core.files.json_files import write_json
from recap.core.hashing import sha256_file
from recap.core.log import log
from recap.settings.metrics import server_names
from recap.statistics.scores import ANSWER, Answer, sent_captions

_METRIC = re.compile(r"bleu[-_ ]?([1-4])|(meteor)|(rouge[-_ ]?l)|(cider)(?:[-_ ]?d)?", re.IGNORECASE)
_REFERENCES = re.compile(r"(?<![a-z0-9])c(5|40)(?![0-9])", re.IGNORECASE)
_LINE = re.compile(r"\s*(\S.*?)\s*(?:[:=]|\s)\s*([-+.\deE]+|nan|inf)\s*", re.IGNORECASE)
_LARGEST = {"CIDEr": 10.0}  # of a sentence equal to all its references; the others end at 1


def import_answer(*, answer: Path, submission: Path, day: date) -> Answer:
    """Write ``scores.json`` into the folder of a submission, from which its table takes the scores.

    Args:
        answer: a JSON with c5 and c40 in the keys of each score, nested or not, or lines ``c5_Bleu_1: 0.81``.
        submission: reports/<profile>/server/<table>_<row>, which holds the captions that were sent.
        day: of the answer.

    Raises:
        DataError: the folder holds no captions that were sent, or the answer has another form, lacks a score, has one
            twice, or gives one that no caption reaches.
    """
    captions = sent_captions(submission)
    if not captions.is_file():
        raise MissingData(f"{captions}: no such file; name the folder that the workflow made for what was sent")
    check(captions)
    found: dict[str, float] = {}
    for key, value in _entries(answer):
        name = _name(key, answer)
        if name in found:
            raise DataError(f"{answer}: gives {name} twice, the second time as {key!r}; leave one out")
        found[name] = _checked(name, value, answer)
    missing = [name for name in server_names() if name not in found]
    if missing:
        raise DataError(
            f"{answer}: {missing[0]} is not there ({len(missing)} of {len(server_names())} scores are missing); give "
            "the server's whole answer for test2014"
        )
    known = Answer(date=day, captions_sha256=sha256_file(captions), scores=found)
    write_json(submission / ANSWER, known.model_dump(mode="json"))
    record(submission / ANSWER)
    log.info(f"{submission / ANSWER}: {len(found)} scores of {known.source}, of {captions.name}")
    return known


def _entries(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield key and value of all entries: of a JSON with the keys around it, joined by dots."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error}); give the server's answer, JSON or text") from error
    if text.lstrip().startswith(("{", "[")):
        try:
            yield from _leaves(json.loads(text), "")
        except (ValueError, RecursionError) as error:
            raise DamagedData(f"{path}: not valid JSON ({error}); give the server's answer as it came") from error
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None and line.strip():
            raise DataError(f"{path}: line {number} is not like 'c5_Bleu_1: 0.81'; give the server's scores alone")
        if match is not None:
            yield match[1], float(match[2]) if _is_number(match[2]) else match[2]


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list):
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(part, f"{key}.{name}" if key else str(name))
    else:
        yield key, value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _name(key: str, path: Path) -> str:
    """Return what tables call a score: c40.ROUGE-L for ``ROUGE_L (c40)``, ``c40_ROUGE_L`` and ``c40.ROUGE_L``."""
    metrics, references = list(_METRIC.finditer(key)), _REFERENCES.findall(key.replace("_", " "))
    if len(metrics) != 1 or len(references) != 1:
        raise DataError(
            f"{path}: {key!r} is no score of BLEU-1 to 4, METEOR, ROUGE-L or CIDEr with c5 or c40; leave out what else "
            "the server says"
        )
    (found,) = metrics
    metric = f"BLEU-{found[1]}" if found[1] else "METEOR" if found[2] else "ROUGE-L" if found[3] else "CIDEr"
    return f"c{references[0]}.{metric}"


def _checked(name: str, value: Any, path: Path) -> float:
    """Return a score, a fraction of 1."""
    largest = _LARGEST.get(name.partition(".")[2], 1.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= largest:
        raise DataError(f"{path}: {name} is {value!r}, not a number from 0 to {largest:g}; scores are no percentages")
    return float(value)
