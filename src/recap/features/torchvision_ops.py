"""Makes timm importable where torchvision's compiled operators do not fit the installed torch.

The registry's torchvision is a CUDA build; beside a CPU wheel of torch its library cannot be loaded, and its import
then stops at two operators without a schema. Nothing here needs those operators, so a schema is enough.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

# A Library takes its definitions back when it is collected.
_keep: list[Any] = []


@cache
def ensure_torchvision() -> str:
    """Prepare the import of torchvision; call it before the first import of timm. Takes some milliseconds.

    Returns:
        ``native`` (the compiled operators work), ``schemas-only`` (they do not, all else does) or ``absent``.
    """
    spec = importlib.util.find_spec("torchvision")
    if spec is None or not spec.submodule_search_locations:
        return "absent"
    import torch

    # Ordinary machines first: schemas defined before the real library is loaded would break it.
    try:
        torch.ops.load_library(str(Path(spec.submodule_search_locations[0]) / "_C.so"))
    except OSError:
        _define_schemas()
        return "schemas-only"
    return "native"


def _define_schemas() -> None:
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _keep.append(library)
