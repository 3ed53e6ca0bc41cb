"""Packed features of a data set: one HDF5 file, read through a memory map.

Datasets of a file: ``ids`` int64 [images], rising; ``image_sizes`` int32 [images, 2], width and
height in pixels (0, 0 where an imported file does not say); ``digests`` uint8 [images, 32], the
sha256 of each image's rows. For each stream (``grid``, ``region``, ``segment``):
``<stream>/values`` [rows of all images, dim] in one piece and not compressed, so that it can be
mapped; ``<stream>/offsets`` int64 [images + 1]: image i has the rows offsets[i] to offsets[i + 1];
and, where they exist, further columns [rows, ...] of ``recap.features.records.COLUMNS``.

HDF5 has checksums of its structure, the attributes have those of the index and of themselves, and
each image has its digest: the first two are compared when a store is opened, a digest when a
process reads an image for the first time. A file of somebody else, over which HDF5 may hang, does
not begin as ours and is refused.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from recap.core.errors import DamagedFeatures, FeatureError, MissingFeatures, nearest
from recap.core.hashing import value_hash
from recap.features.records import COLUMNS, DTYPES, VALUES, image_digest

if TYPE_CHECKING:
    import torch

    from recap.settings.features import FeaturesConfig

LAYOUT = "recap-features-2"
MAGIC = b"RECAPFS2"  # the file begins so, before what HDF5 reads: nobody else's file does
# by what standardized channels were brought to one scale, which photos need as well
CHANNEL_SCALE = "channel_scale"
_MADE_BY = ("layout", "extractor_hash", "weights_sha256", "dtype")
_HASHED = (*_MADE_BY, "checksum", "index_checksum")
_SAMPLE = 64  # images whose numbers are described


@dataclass(frozen=True)
class Index:
    """Which rows belong to which image."""

    ids: np.ndarray  # int64 [images], rising
    sizes: np.ndarray  # int32 [images, 2], width and height
    digests: np.ndarray  # uint8 [images, 32], the sha256 of each image's rows
    offsets: dict[str, np.ndarray]  # int64 [images + 1] of each stream

    def attributes(self, header: Mapping[str, str]) -> dict[str, str]:
        """Return ``header`` with the checksums of all, the attributes of a file."""
        index = hashlib.sha256(
            self.ids.astype("<i8").tobytes() + self.sizes.astype("<i4").tobytes()
        )
        for stream in sorted(self.offsets):
            index.update(stream.encode() + b"\0" + self.offsets[stream].astype("<i8").tobytes())
        attributes = {**header, "layout": LAYOUT, "index_checksum": index.hexdigest()}
        attributes["checksum"] = hashlib.sha256(np.ascontiguousarray(self.digests).data).hexdigest()
        # The identity of a store: equal for equal extractor, weights and values.
        attributes["feature_hash"] = value_hash({key: attributes[key] for key in _HASHED})
        attributes.pop("attributes_checksum", None)  # which is of all others
        return dict(sorted({**attributes, "attributes_checksum": value_hash(attributes)}.items()))


@dataclass(frozen=True)
class Rows:
    """Where the rows of one array are in a file."""

    row: np.dtype  # with the shape of a row
    count: int
    offset: int  # of the first, in bytes

    def place(self, number: int) -> int:
        """Return where a row begins in the file, in bytes."""
        return self.offset + number * self.row.itemsize


def contents(path: Path) -> tuple[dict[str, str], Index, dict[str, Rows]]:
    """Return attributes and index of a file, and the place of each array, by its path."""
    import h5py

    # Locks fail on some network disks and protect nothing here:
    # stores are replaced whole, never changed.
    with h5py.File(path, "r", locking=False) as file:
        attributes = {name: text.decode() for name, text in file.attrs.items()}
        if attributes["layout"] != LAYOUT:
            raise ValueError(f"layout {attributes['layout']!r}, this version reads {LAYOUT!r}")
        offsets = {stream: file[stream]["offsets"][()] for stream in attributes["streams"].split()}
        index = Index(file["ids"][()], file["image_sizes"][()], file["digests"][()], offsets)
        arrays = {}
        for stream, ends in offsets.items():
            columns = [name for name in COLUMNS if name in file[stream]]
            for name in [VALUES, *columns]:
                arrays[f"{stream}/{name}"] = _rows(file[stream][name], name, ends[-1])
    return attributes, index, arrays


def _rows(data: Any, name: str, count: int) -> Rows:
    """Return where the rows of an HDF5 data set are; ValueError where it is another's."""
    place = data.id.get_offset()  # None where it is not in one piece
    types = DTYPES if name == VALUES else (COLUMNS[name],)
    is_shaped = len(data) == count and (name != VALUES or data.ndim == 2)
    if place is None or data.dtype not in map(np.dtype, types) or not is_shaped:
        raise ValueError(f"{data.name} does not have the layout {LAYOUT!r}")
    return Rows(np.dtype((data.dtype, data.shape[1:])), count, place)


class FeatureStore:
    """The features of a store; opens in milliseconds,
    holds no file handle, may be pickled and forked."""

    def __init__(self, path: str | Path, stream: str | None = None) -> None:
        """Open a store; ``stream`` is the one to read (default: the main one)."""
        self.path = Path(path)
        self._chosen = stream
        if not self.path.is_file():
            raise MissingFeatures(
                f"{self.path}: no such feature store; run `recap features extract` first"
            )
        try:
            with self.path.open("rb") as file:
                if file.read(len(MAGIC)) != MAGIC:
                    raise ValueError("it does not begin as one")
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self.attributes, index, self.arrays = contents(self.path)
            if index.attributes(self.attributes) != self.attributes:
                raise ValueError("its checksums do not match the content")
            self._mapped = {
                path: np.frombuffer(self._map, rows.row, rows.count, rows.offset)
                for path, rows in self.arrays.items()
            }
        except (OSError, LookupError, ValueError, RuntimeError, TypeError, AttributeError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise DamagedFeatures(
                f"{self.path}: truncated, damaged or no feature store ({reason}); delete it and "
                "extract it again"
            ) from error
        self.ids, self.image_sizes, self.digests = index.ids, index.sizes, index.digests
        self.offsets = index.offsets
        self.streams = list(index.offsets)  # the extractor put the main one first
        self.stream = self._named(stream or self.streams[0])  # that is read if no other is named
        self.dim = self.shape(self.stream)[1]  # length of its feature vectors
        # Changes when extractor, weights, images or any stored number change.
        self.feature_hash = self.attributes["feature_hash"]
        self._tensors: dict[str, torch.Tensor] = {}
        # images whose digest this process has looked at
        self._compared = np.zeros(len(self.ids), bool)

    def __reduce__(self) -> tuple[Any, ...]:
        return FeatureStore, (self.path, self._chosen)

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, image_ids: Sequence[int], stream: str | None = None) -> np.ndarray:
        """Return how many feature vectors each image has, int64 [B]."""
        offsets = self.offsets[self._named(stream)]
        positions = self.positions(image_ids)
        return offsets[positions + 1] - offsets[positions]

    def read(
        self, image_ids: Sequence[int], stream: str | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return features of images, float32 [B, N, dim],
        zero beyond an image's own rows; and which are real [B, N].

        Images are in the order given, in which an id may be repeated; N is the largest number of
        rows in this batch.
        """
        import torch

        return self._gather(image_ids, f"{self._named(stream)}/{VALUES}", torch.float32)

    def column(
        self, image_ids: Sequence[int], name: str, stream: str | None = None
    ) -> torch.Tensor:
        """Return a column beside the features, such as ``boxes``,
        as [B, N, ...], zero beyond an image's own rows."""
        stream = self._named(stream)
        if name not in self.columns(stream):
            others = ", ".join(self.columns(stream)) or "features alone"
            raise FeatureError(
                f"{self.path}: the stream {stream!r} has no {name!r} (it has {others}); "
                "use a store whose extractor gives them"
            )
        return self._gather(image_ids, f"{stream}/{name}", None)[0]

    def sizes(self, image_ids: Sequence[int]) -> np.ndarray:
        """Return width and height of images in pixels, int32 [B, 2].

        Zeros where an imported file did not say.
        """
        return self.image_sizes[self.positions(image_ids)]

    def columns(self, stream: str | None = None) -> list[str]:
        """Return the names of the columns beside the features of a stream."""
        stream = self._named(stream)
        return [name for name in COLUMNS if f"{stream}/{name}" in self.arrays]

    def shape(self, stream: str) -> tuple[int, ...]:
        """Return the shape of a stream's vectors, [rows of all images, dim]."""
        return self._mapped[f"{self._named(stream)}/{VALUES}"].shape

    def extractor_hash(self) -> str:
        """Return the hash of extractor, weights and type of numbers; other images keep it."""
        return value_hash({key: self.attributes[key] for key in _MADE_BY})

    def stored(self, position: int) -> dict[str, np.ndarray]:
        """Read the arrays of an image, given by its place in the file, by path and as stored.

        Unlike mapped pages, their memory is freed after use.
        """
        arrays = {}
        for path, rows in self.arrays.items():
            start, stop = self._bounds(path, position)
            arrays[path] = np.fromfile(self.path, rows.row, stop - start, offset=rows.place(start))
        return arrays

    def require(self, image_ids: Iterable[int]) -> None:
        """Check that all of these images have features, before hours are spent on the others."""
        self.positions(list(image_ids))

    def positions(self, image_ids: Sequence[int]) -> np.ndarray:
        """Return where in the order of the file images are, int64 [B].

        One that is not there is named.
        """
        wanted = np.asarray(image_ids, dtype=np.int64)
        positions = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        missing = wanted[self.ids[positions] != wanted]
        if len(missing):
            raise FeatureError(
                f"{self.path}: no features for {len(np.unique(missing))} of "
                f"{len(np.unique(wanted))} images, such as image id {missing.min()}; this store "
                "was made from another corpus or from fewer images: extract the features again "
                "from this corpus"
            )
        return positions

    def verify(self) -> None:
        """Read everything and compare it with the checksums (1 GB takes about a second)."""
        for position in range(len(self.ids)):
            if not self.is_intact(position):
                raise self._changed(position)

    def is_intact(self, position: int) -> bool:
        """Read an image, given by its place in the file; return whether it is as it was stored."""
        return image_digest(self.stored(position)) == self.digests[position].tobytes()

    def _bounds(self, path: str, position: int) -> tuple[int, int]:
        """Return the first row of an image in an array, and the first that is not its own."""
        start, stop = self.offsets[path.split("/")[0]][position : position + 2].tolist()
        return start, stop

    def _changed(self, position: int) -> FeatureError:
        return FeatureError(
            f"{self.path}: the content of image id {self.ids[position]} does not match its "
            "checksum; delete the file and extract it again"
        )

    def _gather(
        self, image_ids: Sequence[int], path: str, dtype: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return one array's rows of images as [B, N, ...],
        zero beyond an image's own, and which are real [B, N]."""
        import torch

        positions = self.positions(image_ids)
        for position in np.unique(positions[~self._compared[positions]]).tolist():
            own = {}
            for name, array in self._mapped.items():
                start, stop = self._bounds(name, position)
                own[name] = array[start:stop]
            if image_digest(own) != self.digests[position].tobytes():
                raise self._changed(position)
            self._compared[position] = True
        offsets = self.offsets[path.split("/")[0]]
        rows = self.arrays[path]
        starts = offsets[positions]
        counts = offsets[positions + 1] - starts
        places = np.arange(int(counts.max(initial=0)))
        mask = torch.from_numpy(places < counts[:, None])
        # In the order of the file: a cold disk reads forwards,
        # and all at once; a warm one loses microseconds.
        for image in np.argsort(starts, kind="stable").tolist():
            begin = rows.place(int(starts[image]))
            end = rows.place(int(starts[image] + counts[image]))
            page = begin - begin % mmap.PAGESIZE
            self._map.madvise(mmap.MADV_WILLNEED, page, end - page)
        # One operation for the whole batch; where an image has fewer rows,
        # its last one is repeated until it is zeroed.
        taken = torch.from_numpy(
            (starts[:, None] + np.minimum(places, counts[:, None] - 1)).ravel()
        )
        if path not in self._tensors:
            with warnings.catch_warnings():
                # torch has no read-only tensors;
                # nothing here writes to it, and it does not leave this class.
                warnings.filterwarnings("ignore", "The given NumPy array is not writable")
                self._tensors[path] = torch.from_numpy(self._mapped[path])
        values = self._tensors[path].index_select(0, taken)
        # torch widens float16 twelve times faster than numpy.
        values = values.view(*mask.shape, *rows.row.shape).to(dtype or values.dtype)
        if not bool(mask.all()):
            values[~mask] = 0
        return values, mask

    def _named(self, stream: str | None) -> str:
        if stream is None:
            return self.stream
        if stream not in self.streams:
            raise FeatureError(
                f"{self.path}: it has no stream {stream!r}; {nearest(stream, self.streams)}"
            )
        return stream


def info(file: str | Path, *, spec: FeaturesConfig | None = None) -> str:
    """Return a description of a store for people,
    after checking its content; ``spec``: what must have made it."""
    store = FeatureStore(file)
    extractor = json.loads(store.attributes["extractor"])
    for key, wanted in spec.identity().items() if spec else ():
        if extractor.get(key) != wanted:
            raise FeatureError(
                f"{store.path}: made by another extractor than the settings name: {key} is "
                f"{extractor.get(key)!r} instead of {wanted!r}; name its "
                "settings, or extract it again"
            )
    store.verify()
    ids = store.ids.tolist()
    sample = store.ids[np.linspace(0, len(ids) - 1, min(_SAMPLE, len(ids))).astype(int)].tolist()
    lines = {
        "store": f"{store.path} ({Path(file).stat().st_size / 2**20:.1f} MiB, checksum verified)",
        "images": f"{len(ids)}, ids {ids[0]} to {ids[-1]}",
        **{stream: _stream(store, stream, sample) for stream in store.streams},
        "extractor": store.attributes["extractor"],
        "weights": f"sha256 {store.attributes['weights_sha256']}",
        "made with": store.attributes["made_with"],
        "hash": store.feature_hash,
    }
    return "\n".join(f"{name:10s} {value}" for name, value in lines.items())


def _stream(store: FeatureStore, stream: str, sample: list[int]) -> str:
    """Describe one stream; what its numbers are like, from some images."""
    counts = store.rows(store.ids.tolist(), stream)
    values, mask = store.read(sample, stream)
    real = values[mask]
    dead = (real.std(0) < 1e-6).float().mean()
    columns = "".join(f", {name}" for name in store.columns(stream))
    return (
        f"{counts.min()} to {counts.max()} vectors per image, {real.shape[1]} long, "
        f"{store.attributes['dtype']}{columns}; mean {real.mean():.4g}, sd "
        f"{real.std():.4g}, largest "
        f"{real.abs().max():.4g}, {100 * (real == 0).float().mean():.1f} % zeros, {100 * dead:.1f} "
        f"% dead channels (in {len(sample)} images)"
    )
