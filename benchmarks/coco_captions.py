"""Invented captions in Karpathy's JSON form, of any number
of images, with COCO's lengths and word frequencies.

A caption is a sentence of a pool in which one word in five is drawn anew from the words'
frequencies. The pool holds sentences of COCO's own annotations, where their zip is given, or
sentences drawn from `LENGTHS` and from Zipf's law.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from itertools import chain
from pathlib import Path

import numpy as np

from rehearsal.coco import karpathy_image

# Share of captions of 7, 8, ... 20 words among COCO's, in thousandths; rarer lengths are left out.
LENGTHS = (8, 160, 222, 214, 153, 100, 58, 34, 19, 11, 7, 5, 5, 4)
SHORTEST, WORDS, POOL, REPLACED = 7, 9_500, 25_000, 0.2
CAPTIONS = 5
# One image in so many has a sixth caption:
# COCO's 123,287 images have 616,767 captions, 332 more than five each.
EXTRA_EVERY = 371


class Sentences:
    """A pool of sentences as ids of words, and how often each word occurs."""

    def __init__(self, sentences: list[list[str]]) -> None:
        counts = Counter(chain.from_iterable(sentences))
        self.words = [word for word, _ in counts.most_common()]
        self.shares = np.array([count for _, count in counts.most_common()]) / counts.total()
        numbers = {word: number for number, word in enumerate(self.words)}
        self.pool = [np.array([numbers[word] for word in sentence]) for sentence in sentences]

    @classmethod
    def of_coco(cls, annotations: Path) -> Sentences:
        """Read the captions of a zip of COCO's annotations."""
        with zipfile.ZipFile(annotations) as opened:
            (name,) = (
                each for each in opened.namelist() if Path(each).name.startswith("captions_")
            )
            entries = json.loads(opened.read(name))["annotations"]
        return cls([re.findall(r"[^\W_]+", entry["caption"].lower()) for entry in entries])

    @classmethod
    def invented(cls) -> Sentences:
        """Draw a pool from the lengths and from Zipf's law."""
        rng = np.random.default_rng(0)
        lengths = SHORTEST + rng.choice(len(LENGTHS), POOL, p=np.array(LENGTHS) / sum(LENGTHS))
        shares = 1 / np.arange(1, WORDS + 1)
        words = rng.choice(WORDS, int(lengths.sum()), p=shares / shares.sum())
        return cls(
            [[f"w{word}" for word in part] for part in np.split(words, np.cumsum(lengths)[:-1])]
        )

    def draw(self, count: int, rng: np.random.Generator) -> list[list[str]]:
        """Draw captions, as lists of words."""
        chosen = rng.integers(0, len(self.pool), count)
        words = np.concatenate([self.pool[number] for number in chosen])
        anew = rng.random(len(words)) < REPLACED
        words[anew] = rng.choice(len(self.words), int(anew.sum()), p=self.shares)
        ends = np.cumsum([len(self.pool[number]) for number in chosen])[:-1]
        return [[self.words[word] for word in part] for part in np.split(words, ends)]


def split_sizes(images: int) -> dict[str, int]:
    """Return how many images each split has beside so many training images.

    COCO's have 113,287 + 5,000 x 2.
    """
    held_out = 5_000 if images == 113_287 else images // 10
    return {"train": images, "val": held_out, "test": held_out}


def write_dataset(folder: Path, images: int, sentences: Sentences) -> None:
    """Write ``dataset.json`` and ``images.zip``, whose pictures are empty: no stage here opens one.

    Caption ids are in no order, as COCO's are.
    """
    rng = np.random.default_rng(images)
    splits = [split for split, count in split_sizes(images).items() for _ in range(count)]
    per_image = [
        CAPTIONS + (number % EXTRA_EVERY == EXTRA_EVERY - 1) for number in range(len(splits))
    ]
    ids = rng.permutation(sum(per_image))
    first = np.cumsum([0, *per_image]).tolist()
    with (
        (folder / "dataset.json").open("w") as file,
        zipfile.ZipFile(folder / "images.zip", "w") as pictures,
    ):
        file.write('{"images": [')
        for number, split in enumerate(splits):
            sentids = ids[first[number] : first[number + 1]].tolist()
            words = sentences.draw(len(sentids), rng)
            captions = [f"{' '.join(each).capitalize()}." for each in words]
            name = f"COCO_val2014_{number:012}.jpg"
            image = karpathy_image(
                number,
                name,
                split,
                captions,
                tokens=words,
                ids=sentids,
                filepath=("val2014"),
                cocoid=number,
            )
            file.write(f"{', ' if number else ''}{json.dumps(image)}")
            pictures.writestr(f"val2014/{name}", b"")
        file.write('], "dataset": "coco"}')
