"""Removes what one profile has made, in the folders of the workflow and in MLflow; other profiles keep theirs."""

from __future__ import annotations

import shutil
from pathlib import Path

from recap.core.errors import ConfigError

STORE = Path("mlflow/mlflow.db")


def belongings(profile: str) -> list[Path]:
    """Return the folders and files of a profile that are there.

    Raises:
        ConfigError: the name is no plain name.
    """
    if not profile or profile != Path(profile).name or profile in (".", ".."):
        raise ConfigError(f"{profile!r} is not the name of a profile, such as demo")
    paths = [Path(folder) / profile for folder in ("results", "reports", "work", "logs")]
    return [path for path in [*paths, _marker(profile)] if path.exists()]


def remove(profile: str) -> None:
    """Remove what ``belongings`` names, and the profile's runs in MLflow.

    Raises:
        TrainingError: MLflow's store cannot be written.
    """
    if STORE.exists():
        from recap.tracking.publish import withdraw

        withdraw(profile=profile, store=STORE)
    for path in belongings(profile):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _marker(profile: str) -> Path:
    """Return the file that says that a profile's runs are in MLflow."""
    return STORE.parent / f"{profile}.published.json"
