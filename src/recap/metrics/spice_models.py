"""SPICE's parser models, put where pycocoevalcap looks for them: into its own folder of the environment."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from recap.core.errors import ConfigError
from recap.core.files import atomic_path
from recap.data.files.download import Transfer
from recap.data.files.fetch import fetch_files
from recap.metrics.coco import spice_folder
from recap.metrics.spice import MODEL_JARS, spice_status
from recap.settings.versions import OutsideFile

NAMES = tuple(f"spice/{jar}" for jar in MODEL_JARS)


def spice_models_missing() -> bool:
    """Return whether pycocoevalcap lacks the models."""
    return spice_status(java=None, folder=spice_folder()) == "no-models"


def install_spice_models(files: Mapping[str, OutsideFile], *, into: Path, transfer: Transfer) -> list[Path]:
    """Fetch and verify the models in the profile's inputs, copy those that pycocoevalcap lacks, return their places.

    One there that has another size, as a download that was cut leaves it, is replaced.
    """
    if missing := [name for name in NAMES if name not in files]:
        raise ConfigError(f"the list of outside files has no {missing[0]}; add it, or put it there by hand")
    places = []
    for fetched in fetch_files([files[name] for name in NAMES], into=into, transfer=transfer):
        place = spice_folder() / "lib" / fetched.path.name
        if not place.is_file() or place.stat().st_size != fetched.path.stat().st_size:
            with atomic_path(place) as temporary:
                shutil.copyfile(fetched.path, temporary)
        places.append(place)
    return places
