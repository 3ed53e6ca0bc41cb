"""The reward of self-critical training, ids to CIDEr-D; and the scores of an evaluation.

`COCO_CAPTIONS` in the environment names a zip of COCO's annotations, whose sentences are scored,
not invented ones.
"""

from __future__ import annotations

import os
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.meteor.meteor import Meteor
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

from benchmarks.coco_captions import Sentences
from benchmarks.figures import Case
from recap.metrics.rewards import CiderD
from recap.metrics.scores import evaluate_captions
from recap.settings.recipes import DecodingSettings

IMAGES, SAMPLES, REFERENCES, WORDS = 50, 5, 5, 2000


def cider_d() -> Case:
    """250 candidates with 5 references each, against pycocoevalcap's scorer on the same words."""
    rng = np.random.default_rng(0)

    def caption() -> list[int]:
        return rng.zipf(1.3, size=rng.integers(8, 17)).clip(max=WORDS).tolist()

    references = {
        image: [caption() for _ in range(REFERENCES)] for image in range(IMAGES * SAMPLES)
    }
    candidates = [caption() for _ in range(IMAGES * SAMPLES)]
    scorer, images = CiderD(references), list(range(len(candidates)))
    as_text = {
        image: [" ".join(map(str, words)) for words in rows] for image, rows in references.items()
    }
    hypotheses = {image: [" ".join(map(str, words))] for image, words in enumerate(candidates)}

    def ours() -> np.ndarray:
        return scorer.score(images, candidates)

    def reference() -> np.ndarray:
        return Cider().compute_score(as_text, hypotheses)[1]

    difference = np.abs(ours() - reference()).max()
    shapes = f"{len(candidates)} candidates x {REFERENCES} references"
    return Case("reward.cider_d", shapes, ours, reference, f"scores differ by {difference:.0e}")


def evaluation(images: int = 1000) -> Case:
    """All metrics but SPICE, files written and Java counted, against pycocoevalcap."""
    zipped = os.environ.get("COCO_CAPTIONS")
    sentences = Sentences.of_coco(Path(zipped)) if zipped else Sentences.invented()
    drawn = sentences.draw(images * REFERENCES, np.random.default_rng(0))
    rows = [drawn[first : first + REFERENCES] for first in range(0, len(drawn), REFERENCES)]
    references = {image: [" ".join(words) for words in row] for image, row in enumerate(rows)}
    hypotheses = {image: " ".join(row[0][::2] + row[1][1::2]) for image, row in enumerate(rows)}

    def ours() -> list[float | None]:
        with TemporaryDirectory() as folder:
            found = evaluate_captions(
                references=references,
                hypotheses=hypotheses,
                metrics=["BLEU", "METEOR", "ROUGE-L", "CIDEr"],
                split="test",
                split_hash="0" * 16,
                decoding=DecodingSettings(beam=1, max_length=20),
                out=Path(folder),
            )
        return [found.corpus[name] for name in ("BLEU-4", "METEOR", "ROUGE-L", "CIDEr")]

    def reference() -> list[float]:
        with redirect_stdout(StringIO()):
            said = {image: [{"caption": caption}] for image, caption in hypotheses.items()}
            real = {
                image: [{"caption": caption} for caption in row]
                for image, row in references.items()
            }
            tokenized = [PTBTokenizer().tokenize(each) for each in (real, said)]
            found = [
                scorer.compute_score(*tokenized)[0]
                for scorer in (Bleu(4), Meteor(), Rouge(), Cider())
            ]
        return [found[0][-1], *map(float, found[1:])]

    difference = max(abs(a - b) for a, b in zip(ours(), reference(), strict=True))
    shapes = f"{images} images x {REFERENCES} references"
    return Case("evaluation", shapes, ours, reference, f"scores differ by {difference:.0e}")
