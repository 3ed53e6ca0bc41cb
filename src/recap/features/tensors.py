"""Tensors from outside, read without running code: safetensors, torch.save's, and pickled arrays by name."""

from __future__ import annotations

import hashlib
import io
import pickle
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from recap.core.errors import DamagedFeatures, FeatureError, MissingFeatures, RecapError
from recap.core.process import cause
from recap.data.files.pickles import Opaque, plain

_NUMBERS = {
    *(torch.bfloat16, torch.float16, torch.float32, torch.float64),
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
}
# Random states of numpy, which some checkpoints hold beside the tensors: read as `Opaque`, without numpy.
_STATES = ("numpy.ndarray", "numpy.dtype", *(f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core")))


def read_tensors(path: Path, refused: type[RecapError]) -> Any:
    """Return what a file from outside holds, as `plain` does; one sentence for whatever is wrong."""
    from safetensors.torch import load_file

    try:
        if path.suffix == ".safetensors":
            return plain(load_file(path), _check_tensor)
        if path.suffix == ".pkl":
            return plain(_ArraysOnly(io.BytesIO(path.read_bytes()), encoding="latin1").load())
        _check_sums(path)
        states: list[Any] = [(Opaque, name) for name in _STATES]
        with warnings.catch_warnings(), torch.serialization.safe_globals(states):
            warnings.simplefilter("ignore")  # of old pickles, which are read or refused all the same
            return plain(torch.load(path, map_location="cpu", weights_only=True), _check_tensor)
    except Exception as error:  # torch and pickle raise whatever the damaged bytes happen to mean
        code = re.search(r"GLOBAL (\S+)", str(error))
        reason = f"it names {code[1]}" if code else cause(error)
        raise refused(
            f"{path}: is damaged, or holds more than tensors, which could run code ({reason[:120]}); fetch "
            "it again, or where it can be trusted, save its tensors alone with torch.save"
        ) from error


def _check_tensor(value: Any) -> None:
    """Refuse a tensor that is more than rows of numbers in memory of its own, before anything is copied."""
    if isinstance(value, torch.Tensor):
        if (
            value.dtype not in _NUMBERS
            or value.layout != torch.strided
            or value.is_nested
            or value.device.type != "cpu"
        ):
            raise ValueError(f"a tensor is {value.dtype} of layout {value.layout} on {value.device}")
        if value.numel() * value.element_size() > value.untyped_storage().nbytes():
            raise ValueError(f"a tensor {list(value.shape)} repeats {value.untyped_storage().nbytes():,} bytes")


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


def load_strictly(model: torch.nn.Module, path: Path, *, backbone: str) -> None:
    """Load a safetensors file whose names and shapes are exactly those of ``model``."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise MissingFeatures(f"{path}: no such weights file; put it there, or correct `weights` of the features")
    if path.suffix != ".safetensors":
        raise FeatureError(f"{path}: only safetensors files are read, because other formats can run code; convert it")
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise DamagedFeatures(f"{path}: truncated or no safetensors file ({error}); fetch it again") from error
    problem = _difference(model.state_dict(), tensors)
    if problem:
        raise FeatureError(
            f"{path}: does not fit {backbone!r}: {problem}; correct `weights`, `backbone` or `image_size`"
        )
    model.load_state_dict(tensors, strict=True)


def _difference(expected: dict[str, torch.Tensor], given: dict[str, torch.Tensor]) -> str:
    """Say the first difference between two sets of tensors; empty if names and shapes are equal."""
    missing = [name for name in expected if name not in given]
    if missing:
        return f"it lacks {missing[0]!r} and {len(missing) - 1} other tensors"
    unknown = [name for name in given if name not in expected]
    if unknown:
        return f"it has {unknown[0]!r} and {len(unknown) - 1} other tensors that the backbone has not"
    shapes = [name for name in expected if expected[name].shape != given[name].shape]
    if shapes:
        name = shapes[0]
        return f"{name!r} is {list(given[name].shape)} instead of {list(expected[name].shape)}"
    return ""


def weights_hash(model: torch.nn.Module) -> str:
    """Return the sha256 of names, types, shapes and bytes of all tensors of a model."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\0".encode())
        digest.update(memoryview(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()))
    return digest.hexdigest()
