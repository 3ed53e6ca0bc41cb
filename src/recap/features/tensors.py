"""Reads foreign tensors without running code: safetensors, torch.save, pickled arrays."""

from __future__ import annotations

import hashlib
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

from recap.core.errors import OF_FILES, RecapError
from recap.core.process import cause, out_of_memory
from recap.data.files.pickles import ARRAYS, Opaque, load_plain, plain

_NUMBERS = {
    *(torch.bfloat16, torch.float16, torch.float32, torch.float64),
    *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
}


def read_tensors(path: Path, room: type[RecapError]) -> Any:
    """Return what a file from outside holds, as `plain` does.

    One sentence for whatever is wrong, an error of the room.
    """
    from safetensors.torch import load_file

    absent, broken = OF_FILES[room]
    if not path.is_file():
        raise absent(f"{path}: no such weights; put them there, or correct `weights` or the name")
    try:
        if path.suffix == ".safetensors":
            return plain(load_file(path), _check_tensor)
        if path.suffix == ".pkl":
            return load_plain(path.read_bytes(), arrays=True)
        _check_sums(path)
        # Random states of numpy, which some checkpoints
        # hold beside the tensors, are read without numpy.
        states: list[Any] = [(Opaque, name) for name in ARRAYS if name.startswith("numpy.")]
        with warnings.catch_warnings(), torch.serialization.safe_globals(states):
            # of old pickles, which are read or refused all the same
            warnings.simplefilter("ignore")
            return plain(torch.load(path, map_location="cpu", weights_only=True), _check_tensor)
    except Exception as error:  # torch and pickle raise whatever the damaged bytes happen to mean
        code = re.search(r"(?:GLOBAL |names ')([\w.]+)", str(error))
        reason = ""  # torch speaks of its versions, and pickle of its bytes
        if code:
            reason = f" (it names {code[1]})"
        elif out_of_memory(error) or isinstance(error, ValueError | OSError):
            reason = f" ({cause(error)})"
        raise broken(
            f"{path}: is damaged, or holds more than tensors, which could run code{reason}; fetch "
            "it again, or where it can be trusted, read it with torch.load(.., weights_only=False) "
            "and write its tensors alone with torch.save or as safetensors"
        ) from error


def _check_tensor(value: Any) -> None:
    """Refuse a tensor that is no rows of numbers in memory of its own, before a copy."""
    if not isinstance(value, torch.Tensor):
        return
    is_plain = value.layout == torch.strided and not value.is_nested and value.device.type == "cpu"
    stored = value.untyped_storage().nbytes() if is_plain else 0
    if value.dtype not in _NUMBERS or value.nbytes > stored:
        raise ValueError(
            f"a tensor {list(value.shape)} is {value.dtype}, {value.layout} on {value.device} in "
            f"{stored:,} bytes"
        )


def _check_sums(path: Path) -> None:
    """Compare the members of a zip with their check sums, at which torch does not look."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            # torch.save never compresses: such a member could fill the memory
            packed = [entry.filename for entry in archive.infolist() if entry.compress_type]
            wrong = packed[0] if packed else archive.testzip()
            if wrong is not None:
                raise ValueError(f"its member {wrong!r} is compressed, or its check sum is wrong")


def weights_hash(model: torch.nn.Module) -> str:
    """Return the sha256 of names, types, shapes and bytes of all tensors of a model."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\0".encode())
        digest.update(
            memoryview(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
        )
    return digest.hexdigest()
