"""What earlier runs have left of a feature store: finished images that are still what the job would make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from recap.core.errors import FeatureError
from recap.core.log import log
from recap.features.origins import Notes, hashed
from recap.features.shards import MERGING
from recap.features.store import FeatureStore


class Earlier:
    """Finished images and where they are.

    Attributes:
        stores: image id -> the store or shard that holds it.
    """

    def __init__(self, ids: Sequence[int], *, job: str, notes: Notes | None) -> None:
        """Look for these images, made by this job; ``notes`` tell what they must be made from (None: anything)."""
        self._ids = np.asarray(ids, np.int64)
        self._job, self._notes = job, notes
        self.stores: dict[int, FeatureStore] = {}

    def add(self, path: Path | None, *, others: bool = False) -> FeatureStore | None:
        """Take the images of a store or shard that no other has given; return it if it is of this job.

        A damaged one, or an image that is not what the job would make, is left out with a message.

        Args:
            path: of the store.
            others: take also its images that are not looked for; what they are made from is compared when they are.
        """
        if path is None or not path.exists():
            return None
        try:
            store = FeatureStore(path)
        except FeatureError as error:
            log.warning(f"{error} (doing that now)")
            return None
        if store.attributes.get("job") != self._job or store.origins is None:
            return None
        asked = np.isin(store.ids, self._ids)
        wanted = asked & [image_id not in self.stores for image_id in store.ids.tolist()]
        if wanted.any() or others:
            intact = store.intact()
            current = self._current(store, wanted & intact)
            self._say(path, int((wanted & ~intact).sum()), int((wanted & intact & ~current).sum()))
            found = current | (intact & ~asked) if others else current
            self.stores |= dict.fromkeys(store.ids[found].tolist(), store)
        return store

    def forget(self, path: Path) -> None:
        """Leave out the images of a store that is going to be replaced."""
        self.stores = {image_id: store for image_id, store in self.stores.items() if store.path != path}

    def has(self, ids: Iterable[int]) -> bool:
        """Return whether all of these images are finished."""
        return all(image_id in self.stores for image_id in ids)

    def lacks(self, ids: Iterable[int]) -> list[int]:
        """Return those of these images that are not finished."""
        return [image_id for image_id in ids if image_id not in self.stores]

    def _current(self, store: FeatureStore, wanted: np.ndarray) -> np.ndarray:
        """Return which of the wanted images are made from the bytes of now."""
        if self._notes is None:
            return wanted
        assert store.origins is not None
        found = np.zeros(len(wanted), bool)
        for position in np.flatnonzero(wanted).tolist():
            found[position] = store.origins[position].tobytes() == hashed(self._notes.content(int(store.ids[position])))
        return found

    def _say(self, path: Path, damaged: int, stale: int) -> None:
        if damaged and not path.name.endswith(MERGING):  # which lacks what has not been copied yet
            log.warning(f"{path}: {damaged} images do not match their checksums (making them again)")
        if stale:
            log.warning(f"{path}: source files of {stale} images have changed since (making them again)")
