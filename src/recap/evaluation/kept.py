"""Decoded captions that are not yet scored: a search of an hour is not lost when a scorer fails."""

from __future__ import annotations

import json
from pathlib import Path

from recap.core.files import write_text
from recap.core.hashing import value_hash
from recap.core.log import log
from recap.evaluation.decode import Candidate

Found = dict[int, list[Candidate]]  # image id -> its captions, best first


class Kept:
    """A file beside the scores until they are complete; Snakemake does not know it, so no job deletes it.

    `identity` is the hash of what the captions are made from; those of anything else are not taken.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self.path = path
        self._identity = identity

    def read(self) -> Found | None:
        """Return what was kept, or None: nothing, another search's captions, or a damaged file."""
        try:
            kept = json.loads(self.path.read_text(encoding="utf-8"))
            images, digest = kept["images"], kept["hash"]
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            log.warning(f"{self.path}: damaged; the captions are searched again")
            return None
        if digest != value_hash([self._identity, images]):
            return None
        log.info(f"{self.path}: captions of an evaluation that did not end; only their scoring is left")
        return {int(image): [Candidate(*candidate) for candidate in found] for image, found in images.items()}

    def write(self, found: Found) -> Found:
        """Keep captions and return them."""
        images = {
            str(i): [[c.tokens, c.score, c.log_probability] for c in candidates] for i, candidates in found.items()
        }
        write_text(self.path, json.dumps({"hash": value_hash([self._identity, images]), "images": images}))
        return found

    def remove(self) -> None:
        """Take the file away, once the scores are written."""
        self.path.unlink(missing_ok=True)
