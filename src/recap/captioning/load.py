"""`recap.load`: a trained run, ready for photos."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recap.captioning.hub import fetch_run
from recap.captioning.run_files import find_run_files
from recap.settings.base import HUB

if TYPE_CHECKING:
    from recap.captioning.captioner import PhotoCaptioner


def load(
    run: str | Path,
    *,
    device: str = "auto",
    vocabulary: str | Path | None = None,
    features: Sequence[str | Path] = (),
    weights: str | Path | None = None,
) -> PhotoCaptioner:
    """Return a trained run, ready for photos.

    Args:
        run: the folder of a run (`results/<profile>/runs/...`), or one above several runs of one data set, such as
            `results/demo`: the best on validation is taken; or what `recap export hub` wrote, a folder or its name on
            the hub, `hub:OWNER/NAME@REVISION`.
        device: auto (a GPU if there is one), cpu or cuda.
        vocabulary, features, weights: the run's vocabulary, its feature stores, and the weights of what made the
            features, where they do not lie in the results beside the run.

    Raises:
        RecapError: a file is missing, damaged or not what the run was made with, or the run's features cannot be made
            for a photo; one sentence says which and what to do.
    """
    # Before torch and timm, whose imports take most of a start: a wrong path is told at once.
    files = find_run_files(
        fetch_run(str(run)) if str(run).startswith(HUB) else Path(run),
        vocabulary=None if vocabulary is None else Path(vocabulary),
        features=[Path(path) for path in features],
        weights=None if weights is None else Path(weights),
    )
    from recap.captioning.captioner import PhotoCaptioner
    from recap.core.device import select_device

    return PhotoCaptioner(files, select_device(device))
