"""COCO's caption server: the captions that are sent, and the scores that it answers.

It takes `captions_val2014_<algorithm>_results.json` and
`captions_test2014_<algorithm>_results.json`, each a list of {"image_id", "caption"} with one
caption per image, and scores the second against hidden references (c5, c40).
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import StrictInt, StrictStr

from recap.core.checksums import check, record
from recap.core.documents import read_json, write_json
from recap.core.errors import DataError, MissingData
from recap.core.files import atomic_path, reading, write_text
from recap.core.hashing import sha256_file
from recap.core.log import log
from recap.data.caption_files import filled_captions
from recap.plan.run import ANSWER, results_name
from recap.settings.datasets import COCO_PARTS
from recap.settings.metrics import server_names
from recap.statistics.scores import Answer, sent_captions

_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # equal captions give equal bytes
_SCORE = re.compile(r"c(5|40)_(Bleu_[1-4]|METEOR|ROUGE_L|CIDEr): *([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)")


@dataclass(frozen=True)
class _Entry:
    """A caption in COCO's results form."""

    image_id: StrictInt
    caption: StrictStr


def write_submission(
    *, val: Sequence[Path], test: Sequence[Path], algorithm: str, out: Path, partial: bool = False
) -> Path:
    """Write the zip of a submission, and beside it the files that it holds.

    The files of each set, in COCO's results form, hold every image once (Karpathy's split cuts
    val2014 into three).
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]+", algorithm):
        raise DataError(f"algorithm {algorithm!r}: the server takes letters, digits, - and _ only")
    texts = {
        results_name(part, algorithm): json.dumps(
            _results(part, files, None if partial else COCO_PARTS[part])
        )
        for part, files in {"val2014": val, "test2014": test}.items()
    }
    for name, text in texts.items():
        write_text(out.with_name(name), text)
    with (
        atomic_path(out) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name, text in texts.items():
            archive.writestr(zipfile.ZipInfo(name, _LONG_AGO), text, zipfile.ZIP_DEFLATED)
    record(out, *map(out.with_name, texts))
    return out


def _results(part: str, files: Sequence[Path], size: int | None) -> list[dict[str, Any]]:
    """Return the captions of one set, sorted by image."""
    captions: dict[int, list[str]] = {}
    for file in files:
        check(file)
        for entry in read_json(file, list[_Entry]):
            if entry.image_id in captions:
                raise DataError(
                    f"{part}: image {entry.image_id} has several captions; give each in one file "
                    "alone"
                )
            captions[entry.image_id] = [entry.caption]
    if size is not None and len(captions) != size:
        raise DataError(
            f"{part}: {len(captions)} captions, but the server wants one for each of its {size} "
            "images; add the files that hold the others"
        )
    return [
        {"image_id": image, "caption": caption}
        for image, caption in sorted(filled_captions(captions, part).items())
    ]


def import_answer(*, answer: Path, submission: Path, day: date) -> Answer:
    """Write ``scores.json`` into the folder of a submission
    (reports/<profile>/server/<table>_<row>) for its table.

    `answer`, of that day, has a line ``c5_Bleu_1: 0.81`` for each score.
    """
    captions = sent_captions(submission)
    if not captions.is_file():
        raise MissingData(
            f"{captions}: no such file; name the folder that the workflow made for what was sent"
        )
    check(captions)
    scores = _read_scores(answer)
    missing = [name for name in server_names() if name not in scores]
    if missing:
        raise DataError(
            f"{answer}: {missing[0]} is not there ({len(missing)} of {len(server_names())} scores "
            "are missing); give the server's whole answer for test2014"
        )
    checked = Answer(date=day, captions_sha256=sha256_file(captions), scores=scores)
    write_json(submission / ANSWER, checked.model_dump(mode="json"))
    record(submission / ANSWER)
    log.info(f"{submission / ANSWER}: {len(scores)} scores of {checked.source}, of {captions.name}")
    return checked


def _read_scores(path: Path) -> dict[str, float]:
    """Return the scores of an answer, by the names of tables: c40.ROUGE-L for ``c40_ROUGE_L``."""
    with reading(path, damaged="give the server's answer as it came"):
        lines = path.read_text(encoding="utf-8").splitlines()
    scores: dict[str, float] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        match = _SCORE.fullmatch(line.strip())
        if match is None:
            raise DataError(
                f"{path}: line {number} is not like 'c5_Bleu_1: 0.81'; leave out what else the "
                "server says"
            )
        name = f"c{match[1]}.{match[2].replace('_', '-').replace('Bleu', 'BLEU')}"
        largest = 10 if name.endswith("CIDEr") else 1  # of a sentence equal to all its references
        if name in scores or float(match[3]) > largest:
            raise DataError(
                f"{path}: line {number}: {name} is {match[3]}; give it once, as a number from 0 to "
                f"{largest} and no percentage"
            )
        scores[name] = float(match[3])
    return scores
