"""Released checkpoints as files."""

from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from safetensors.torch import load_file

from recap.cli import main


def imported(kind, state):
    """Return the tensors of a released state dict as `recap import-checkpoint` writes them from a file."""
    with TemporaryDirectory() as folder:
        file, out = Path(folder, "released.pth"), Path(folder, "ours.safetensors")
        torch.save(dict(state), file)
        main(["import-checkpoint", kind, str(file), "--out", str(out)])
        return load_file(out)
