"""Released checkpoints as files."""

from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from recap.runs.released import released_tensors


def imported(kind, state):
    """Return the tensors of a released state dict by our names, as they are read from a file."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "released.pth")
        torch.save(dict(state), file)
        return released_tensors(kind, file)[1]
