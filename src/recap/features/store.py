"""Packed features of a data set: one HDF5 file (``recap.features.layout``), read through a memory map."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recap.core.errors import DamagedFeatures, FeatureError, MissingFeatures, nearest
from recap.features import header
from recap.features.hdf5 import UnreadableHdf5
from recap.features.layout import GRID, LAYOUT, VALUES, Mapped, Packed, image_digest, made_by, stream_arrays

if TYPE_CHECKING:
    import torch

__all__ = ["GRID", "FeatureStore"]

_PIECE = 2**24  # bytes read at a time


class FeatureStore:
    """The features of a store; opens in milliseconds, holds no file handle, may be pickled and forked.

    Attributes:
        ids: image ids, int64 [images], rising.
        image_sizes: int32 [images, 2], width and height in pixels.
        streams: names of the streams; the extractor put the main one first.
        stream: the one that is read if no other is named.
        dim: length of its feature vectors.
        attributes: what the file says of itself (extractor, extractor_hash, weights_sha256, checksum, ...).
        feature_hash: changes when extractor, weights, images or any stored number change.
        origins: the sha256 of what each image is made from, uint8 [images, 32]; None in stores of earlier versions.
    """

    def __init__(self, path: str | Path, stream: str | None = None) -> None:
        """Open a store; ``stream`` is the one to read (default: the main one).

        Raises:
            FeatureError: the file is missing, truncated, damaged or no feature store, or lacks the stream.
        """
        self.path = Path(path)
        self._chosen = stream
        self._open()

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "chosen": self._chosen}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.path, self._chosen = state["path"], state["chosen"]
        self._open()

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, image_id: object) -> bool:
        return isinstance(image_id, (int, np.integer)) and not len(self._unknown(np.asarray([image_id]))[0])

    def rows(self, image_ids: Sequence[int], stream: str | None = None) -> np.ndarray:
        """Return how many feature vectors each image has, int64 [B].

        Raises:
            FeatureError: an image is not in the store.
        """
        offsets = self._offsets[self._named(stream)]
        positions = self.positions(image_ids)
        return offsets[positions + 1] - offsets[positions]

    def read(self, image_ids: Sequence[int], stream: str | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the features of images in the order given (an id may be repeated).

        Returns:
            values float32 [B, N, dim], zero beyond an image's own rows, and mask bool [B, N], true where rows are real;
            N is the largest number of rows in this batch.

        Raises:
            FeatureError: an image is not in the store, or is not as it was stored (each is compared with its checksum
                when a process reads it for the first time).
        """
        import torch

        return self._gather(image_ids, self._named(stream), VALUES, torch.float32)

    def column(self, image_ids: Sequence[int], name: str, stream: str | None = None) -> torch.Tensor:
        """Return a column beside the features, such as ``boxes``, as [B, N, ...], zero beyond an image's own rows.

        Raises:
            FeatureError: an image or the column is not in the store, or the image is not as it was stored.
        """
        stream = self._named(stream)
        if name not in self._arrays[stream]:
            known = [column for column in self._arrays[stream] if column != VALUES]
            raise FeatureError(
                f"{self.path}: the stream {stream!r} has no {name!r} (it has {', '.join(known) or 'features alone'}); "
                "use a store whose extractor gives them"
            )
        return self._gather(image_ids, stream, name, None)[0]

    def sizes(self, image_ids: Sequence[int]) -> np.ndarray:
        """Return width and height of images in pixels, int32 [B, 2]; zeros where an imported file did not say."""
        return self.image_sizes[self.positions(image_ids)]

    def columns(self, stream: str | None = None) -> list[str]:
        """Return the names of the columns beside the features of a stream."""
        return [name for name in self._arrays[self._named(stream)] if name != VALUES]

    def blocks(self, first: int = 0, last: int | None = None) -> Iterator[tuple[int, int, dict[str, np.ndarray]]]:
        """Yield positions start, stop of neighboring images and their arrays by path (``grid/values``), as stored.

        A block holds about 16 MiB, so that memory stays bounded however large the file is.

        Args:
            first, last: positions that the blocks start and end with; all images without them.
        """
        step = max(1, int(_PIECE // (sum(self._stream_bytes(stream) for stream in self.streams) / len(self.ids) + 1)))
        end = len(self.ids) if last is None else last
        for start in range(first, end, step):
            stop = min(start + step, end)
            arrays = {}
            for stream in self.streams:
                begin, finish = self._offsets[stream][[start, stop]]
                for name, packed in self._arrays[stream].items():
                    arrays[f"{stream}/{name}"] = packed.rows(begin, finish)
            yield start, stop, arrays

    def shape(self, stream: str, name: str = VALUES) -> tuple[int, ...]:
        """Return the shape of one array of the file, [rows of all images, ...].

        Raises:
            FeatureError: the store has no such stream.
        """
        return self._arrays[self._named(stream)][name].shape

    def dtype(self, stream: str, name: str = VALUES) -> str:
        """Return the stored type of one array of the file."""
        return self._arrays[stream][name].dtype.name

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
        """Read everything and compare it with the checksums (1 GB takes about a second).

        Raises:
            FeatureError: a stored number was changed after the file was made; names the first image.
        """
        for position in np.flatnonzero(~self.intact())[:1]:
            raise self._changed(position)

    def intact(self) -> np.ndarray:
        """Read everything; return which images are as they were stored, bool [images]."""
        found = np.zeros(len(self.ids), bool)
        for start, stop, arrays in self.blocks():
            for position in range(start, stop):
                found[position] = self._is_intact(position, arrays, start)
        return found

    def positions(self, image_ids: Sequence[int]) -> np.ndarray:
        """Return where in the order of the file images are, int64 [B].

        Raises:
            FeatureError: an image is not in the store.
        """
        wanted = np.asarray(image_ids, dtype=np.int64)
        missing, positions = self._unknown(wanted)
        if len(missing):
            raise self._missing(int(missing[0]), len(np.unique(missing)), len(np.unique(wanted)))
        return positions

    def places(self) -> dict[str, Packed]:
        """Return where in the file the arrays of features are, by path (``grid/values``)."""
        return {f"{stream}/{name}": packed for stream, own in self._arrays.items() for name, packed in own.items()}

    def starts(self, position: int) -> dict[str, int]:
        """Return the first row of the image at a position, of each array by path."""
        return {path: int(self._offsets[path.split("/")[0]][position]) for path in self.places()}

    def digests(self) -> np.ndarray:
        """Return the sha256 of each image's rows, uint8 [images, 32]."""
        return self._digests

    def made_by(self) -> str:
        """Return the hash of extractor, weights and type of the numbers: equal for stores of other images, too."""
        return made_by(self.attributes)

    def _check_content(self, positions: np.ndarray) -> None:
        """Compare images that this process has not read before with their checksums."""
        new = positions[~self._checked[positions]]
        if len(new):
            arrays = {f"{s}/{n}": self._map.array(p) for s, found in self._arrays.items() for n, p in found.items()}
            for position in np.unique(new).tolist():
                if not self._is_intact(position, arrays, 0):
                    raise self._changed(position)
                self._checked[position] = True

    def _is_intact(self, position: int, arrays: Mapping[str, np.ndarray], first: int) -> bool:
        """Compare an image with its checksum; the arrays start with the rows of the image at ``first``."""
        own = {}
        for path, array in arrays.items():
            offsets = self._offsets[path.split("/")[0]]
            own[path] = array[offsets[position] - offsets[first] : offsets[position + 1] - offsets[first]]
        return image_digest(own) == self._digests[position].tobytes()

    def _changed(self, position: int) -> FeatureError:
        return FeatureError(
            f"{self.path}: the content of image id {self.ids[position]} does not match its checksum; "
            "delete the file and extract it again"
        )

    def _gather(
        self, image_ids: Sequence[int], stream: str, name: str, dtype: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return one array's rows of images as [B, N, ...], zero beyond an image's own, and which are real [B, N]."""
        import torch

        positions = self.positions(image_ids)
        self._check_content(positions)
        starts, stops = self._offsets[stream][positions], self._offsets[stream][positions + 1]
        counts = stops - starts
        places = np.arange(int(counts.max(initial=0)))
        mask = torch.from_numpy(places < counts[:, None])
        packed = self._arrays[stream][name]
        for image in np.argsort(starts, kind="stable").tolist():
            # In the order of the file: a cold disk reads forwards, and all at once; a warm one loses microseconds.
            self._map.ahead(
                packed.offset + int(starts[image]) * packed.row_bytes, int(counts[image]) * packed.row_bytes
            )
        # One operation for the whole batch; where an image has fewer rows, its last one is repeated until it is zeroed.
        rows = torch.from_numpy((starts[:, None] + np.minimum(places, counts[:, None] - 1)).ravel())
        found = self._tensor(stream, name).index_select(0, rows)
        # torch widens float16 twelve times faster than numpy.
        found = found.view(*mask.shape, *packed.shape[1:]).to(dtype or found.dtype)
        if not bool(mask.all()):
            found[~mask] = 0
        return found, mask

    def _tensor(self, stream: str, name: str) -> torch.Tensor:
        """Return one array of the file as a tensor over the memory map, made when it is first asked for."""
        import torch

        if (stream, name) not in self._tensors:
            with warnings.catch_warnings():
                # torch has no read-only tensors; nothing here writes to it, and it does not leave this class.
                warnings.filterwarnings("ignore", "The given NumPy array is not writable")
                self._tensors[stream, name] = torch.from_numpy(self._map.array(self._arrays[stream][name]))
        return self._tensors[stream, name]

    def _stream_bytes(self, stream: str) -> int:
        return sum(packed.row_bytes * packed.shape[0] for packed in self._arrays[stream].values())

    def _named(self, stream: str | None) -> str:
        if stream is None:
            return self.stream
        if stream not in self._offsets:
            raise FeatureError(f"{self.path}: it has no stream {stream!r}; {nearest(stream, self.streams)}")
        return stream

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
            raise MissingFeatures(f"{self.path}: no such feature store; run `recap features extract` first")
        try:
            self._take(header.read(self.path))
        except (OSError, KeyError, IndexError, ValueError, RuntimeError, TypeError, UnreadableHdf5) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise DamagedFeatures(
                f"{self.path}: truncated, damaged or no feature store ({reason}); delete it and extract it again"
            ) from error
        self.stream = self._named(self._chosen or self.streams[0])
        self.dim = self.shape(self.stream)[1]

    def _take(self, found: header.Contents) -> None:
        """Take over what the file says of itself."""
        self.attributes = found.attributes
        if self.attributes["layout"] != LAYOUT:
            raise ValueError(f"layout {self.attributes['layout']!r}, this version reads {LAYOUT!r}")
        self.streams = self.attributes["streams"].split()
        self.ids, self.image_sizes, self._digests = (found.index[name] for name in ("ids", "image_sizes", "digests"))
        self.origins = found.index.get("origins")
        self._offsets: dict[str, np.ndarray] = {stream: found.index[f"{stream}/offsets"] for stream in self.streams}
        self.feature_hash = self.attributes["feature_hash"]
        self._map = Mapped(self.path)
        self._tensors: dict[tuple[str, str], torch.Tensor] = {}
        self._arrays = {
            stream: stream_arrays(found.arrays, stream, rows=int(self._offsets[stream][-1])) for stream in self.streams
        }
        self._checked = np.zeros(len(self.ids), bool)  # whose content this process has compared with its checksum
