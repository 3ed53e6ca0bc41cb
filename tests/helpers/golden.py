"""Golden vectors in tests/golden, and how close ours have to be."""

from pathlib import Path

import numpy as np
import torch

GOLDEN = Path(__file__).parents[1] / "golden"


def load(name):
    """Return the arrays of a file as tensors, by their names."""
    file = np.load(GOLDEN / f"{name}.npz")
    return {key: torch.from_numpy(np.asarray(file[key])) for key in file if key != "meta/json"}


def with_parameters(name):
    """Return the arrays of a file, and those below `param/` by their own names."""
    arrays = load(name)
    return arrays, {
        key.removeprefix("param/"): value
        for key, value in arrays.items()
        if key.startswith("param/")
    }


def close(ours, theirs, atol=1e-10):
    torch.testing.assert_close(ours, theirs, atol=atol, rtol=0)
