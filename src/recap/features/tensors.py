"""Files of tensors from outside, read without running code: what torch.save wrote, and pickled arrays by name."""

from __future__ import annotations

import io
import pickle
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from recap.core.errors import RecapError, first_line
from recap.data.files.pickles import Opaque

# Random states of numpy, which some checkpoints hold beside the tensors: read as `Opaque`, without numpy.
_STATES = ("numpy.ndarray", "numpy.dtype", *(f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core")))


def read_tensors(path: Path, refused: type[RecapError]) -> Any:
    """Return what a .pth, .bin or .pkl from outside holds; whatever is wrong with it becomes one sentence."""
    try:
        if path.suffix == ".pkl":
            return _ArraysOnly(io.BytesIO(path.read_bytes()), encoding="latin1").load()
        _check_sums(path)
        states: list[Any] = [(Opaque, name) for name in _STATES]
        with warnings.catch_warnings(), torch.serialization.safe_globals(states):
            warnings.simplefilter("ignore")  # of old pickles, which are read or refused all the same
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch and pickle raise whatever the damaged bytes happen to mean
        raise refused(
            f"{path}: is damaged, or holds more than tensors, which could run code ({first_line(error)[:120]}); fetch "
            "it again, or where it can be trusted, save its tensors alone with torch.save"
        ) from error


def _check_sums(path: Path) -> None:
    """Compare the members of a zip with their check sums, at which torch does not look."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise ValueError("its tensors are compressed, as torch.save never does")
            if (wrong := archive.testzip()) is not None:
                raise ValueError(f"the check sum of {wrong!r} is wrong")


class _ArraysOnly(pickle.Unpickler):
    """Loads pickles of numpy arrays by name, as detectron2's model zoo has them, and refuses everything else."""

    _ALLOWED = {
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy.core.multiarray", "scalar"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "scalar"),
        ("_codecs", "encode"),
        ("collections", "OrderedDict"),
    }

    def find_class(self, module: str, name: str) -> Any:
        """Return a permitted constructor."""
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it would run {module}.{name}")
        return super().find_class(module, name)
