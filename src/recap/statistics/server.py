"""Scores that COCO's caption server gave to what it was sent: ``scores.json`` in the folder of a submission."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from recap.core.checksums import check
from recap.core.documents import read_json
from recap.core.hashing import sha256_file
from recap.plan.submissions import TEST, results_name
from recap.settings.base import Strict

ANSWER = "scores.json"
ALONE = "the COCO server alone has the references"
NO_IMAGES = "the COCO server gives no scores per image, so no test is possible"


class Answer(Strict):
    """What the server answered.

    Attributes:
        date: day of the answer.
        captions_sha256: of the captions of test2014 that it was sent.
        scores: c5.BLEU-1 and so on -> fraction of 1; CIDEr may exceed 1.
    """

    date: date
    captions_sha256: str
    scores: dict[str, float]

    @property
    def source(self) -> str:
        """Who gave the scores, and when."""
        return f"COCO server, {self.date.isoformat()}"


def sent_captions(folder: Path) -> Path:
    """Return the captions of test2014 in the folder of a submission, whose name is that of the submission."""
    return folder / results_name(TEST, folder.name)


def read_answer(folder: Path) -> Answer | str:
    """Return what the server answered to a submission, or why there are no scores of the captions as they are.

    Raises:
        RecapError: the file is damaged, or has changed since it was written.
    """
    path = folder / ANSWER
    if not path.exists():
        return f"{ALONE}; send it {folder}/{folder.name}.zip and bring its answer in with `recap scores import`"
    check(path)
    answer: Answer = read_json(path, Answer)
    if sha256_file(sent_captions(folder)) != answer.captions_sha256:
        return f"the {answer.source}, scored other captions than those of now; send it {folder}/{folder.name}.zip"
    return answer
