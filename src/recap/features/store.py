"""Packed features of a data set: one HDF5 file, read through a memory map.

Datasets of a file: ``ids`` int64 [images], rising; ``image_sizes`` int32 [images, 2], width and height in pixels; for a
stream (``grid``) ``<stream>/values`` [rows of all images, dim] in one piece and not compressed, so that it can be
mapped, and ``<stream>/offsets`` int64 [images + 1]: image i has the rows offsets[i] to offsets[i + 1].
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recap.core.errors import FeatureError
from recap.core.manifests import value_hash

if TYPE_CHECKING:
    import torch

LAYOUT = "recap-features-1"
GRID = "grid"
DTYPES = ("float16", "float32")
_PIECE = 2**24  # bytes hashed at a time
_HASHED = ("layout", "extractor_hash", "weights_sha256", "dtype", "checksum", "index_checksum")


class FeatureStore:
    """The features of one stream of a store; opens in milliseconds, holds no file handle, may be pickled and forked.

    Attributes:
        ids: image ids, int64 [images], rising.
        image_sizes: int32 [images, 2], width and height in pixels.
        dim: length of a feature vector.
        attributes: what the file says of itself (extractor, extractor_hash, weights_sha256, checksum, ...).
        feature_hash: changes when extractor, weights, images or any stored number change.
    """

    def __init__(self, path: str | Path, stream: str = GRID) -> None:
        """Open a store.

        Raises:
            FeatureError: the file is missing, truncated, damaged or no feature store, or lacks the stream.
        """
        self.path = Path(path)
        self.stream = stream
        self._open()

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "stream": self.stream}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.path, self.stream = state["path"], state["stream"]
        self._open()

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, image_id: object) -> bool:
        return isinstance(image_id, (int, np.integer)) and not len(self._unknown(np.asarray([image_id]))[0])

    def rows(self, image_ids: Sequence[int]) -> np.ndarray:
        """Return how many feature vectors each image has, int64 [B].

        Raises:
            FeatureError: an image is not in the store.
        """
        positions = self._positions(image_ids)
        return self._offsets[positions + 1] - self._offsets[positions]

    def read(self, image_ids: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the features of images in the order given (an id may stand twice).

        Returns:
            values float32 [B, N, dim], zero beyond an image's own rows, and mask bool [B, N], true where rows are real;
            N is the largest number of rows in this batch.

        Raises:
            FeatureError: an image is not in the store.
        """
        import torch

        positions = self._positions(image_ids)
        starts, stops = self._offsets[positions], self._offsets[positions + 1]
        counts = stops - starts
        longest = int(counts.max(initial=0))
        values = np.zeros((len(positions), longest, self.dim), self._values.dtype)
        for place in np.argsort(starts, kind="stable"):
            values[place, : counts[place]] = self._values[starts[place] : stops[place]]
        mask = np.arange(longest) < counts[:, None]
        # torch widens float16 twelve times faster than numpy.
        return torch.from_numpy(values).float(), torch.from_numpy(mask)

    def pieces(self, size: int) -> Iterator[np.ndarray]:
        """Yield all values [rows, dim] as they are stored, in pieces of about ``size`` bytes."""
        step = max(1, size // (self.dim * self._values.itemsize))
        for start in range(0, len(self._values), step):
            yield self._values[start : start + step]

    def require(self, image_ids: Iterable[int]) -> None:
        """Check that all of these images have features, before hours are spent on the others.

        Raises:
            FeatureError: names the first image that is missing and says how many are.
        """
        wanted = np.unique(np.asarray(list(image_ids), dtype=np.int64))
        missing, _ = self._unknown(wanted)
        if len(missing):
            raise self._missing(int(missing[0]), len(missing), len(wanted))

    def verify(self) -> None:
        """Read all values and compare them with the checksum (1 GB takes about a second).

        Raises:
            FeatureError: a stored number or attribute was changed after the file was made.
        """
        digest = hashlib.sha256()
        for piece in self.pieces(_PIECE):
            digest.update(np.ascontiguousarray(piece).data)
        whole = digest.hexdigest() == self.attributes["checksum"]
        if not whole or feature_hash(self.attributes) != self.feature_hash:
            raise FeatureError(f"{self.path}: the content does not match its checksum; delete it and extract it again")

    def _positions(self, image_ids: Sequence[int]) -> np.ndarray:
        wanted = np.asarray(image_ids, dtype=np.int64)
        missing, positions = self._unknown(wanted)
        if len(missing):
            raise self._missing(int(missing[0]), len(np.unique(missing)), len(np.unique(wanted)))
        return positions

    def _unknown(self, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return those of ``wanted`` that are not in the store, and the positions of all (wrong for the former)."""
        positions = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        return wanted[self.ids[positions] != wanted], positions

    def _missing(self, first: int, missing: int, wanted: int) -> FeatureError:
        some = f" (nor for {missing - 1} others of the {wanted} asked for)" if missing > 1 else ""
        return FeatureError(
            f"{self.path}: no features for image id {first}{some}; this store was made from another corpus "
            "or from fewer images: extract the features again from this corpus"
        )

    def _open(self) -> None:
        if not self.path.is_file():
            raise FeatureError(f"{self.path}: no such feature store; run `recap features extract` first")
        import h5py

        try:
            # Locks fail on some network disks and protect nothing here: stores are replaced whole, never changed.
            with h5py.File(self.path, "r", locking=False) as file:
                self._read_header(file)
        except (OSError, KeyError, ValueError, RuntimeError, TypeError, AttributeError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise FeatureError(
                f"{self.path}: truncated, damaged or no feature store ({reason}); delete it and extract it again"
            ) from error

    def _read_header(self, file: Any) -> None:
        self.attributes: dict[str, str] = {key: str(value) for key, value in file.attrs.items()}
        if self.attributes["layout"] != LAYOUT:
            raise ValueError(f"layout {self.attributes['layout']!r}, this version reads {LAYOUT!r}")
        self.feature_hash = self.attributes["feature_hash"]
        self.ids: np.ndarray = file["ids"][:]
        self.image_sizes: np.ndarray = file["image_sizes"][:]
        if self.stream not in file:
            raise ValueError(f"it has no stream {self.stream!r}")
        values = file[self.stream]["values"]
        self._offsets: np.ndarray = file[self.stream]["offsets"][:]
        if index_checksum(self.ids, self.image_sizes, self._offsets) != self.attributes["index_checksum"]:
            raise ValueError("the index does not match its checksum")
        rows, self.dim = values.shape
        offset = values.id.get_offset()
        if offset is None or rows != self._offsets[-1] or str(values.dtype) not in DTYPES:
            raise ValueError(f"the values of {self.stream!r} do not have the layout {LAYOUT!r}")
        self._values = np.asarray(np.memmap(self.path, values.dtype, "r", offset, values.shape))


def index_checksum(ids: np.ndarray, image_sizes: np.ndarray, offsets: np.ndarray) -> str:
    """Return the sha256 of all that says which rows belong to which image."""
    parts = (ids.astype("<i8"), image_sizes.astype("<i4"), offsets.astype("<i8"))
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


def feature_hash(attributes: Mapping[str, str]) -> str:
    """Return the identity of a store from its attributes: equal for equal extractor, weights and values."""
    return value_hash({key: attributes[key] for key in _HASHED})
