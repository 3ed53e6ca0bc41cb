"""Removes the results of one profile, in the workflow's folders and in MLflow; other profiles keep theirs."""

from __future__ import annotations

import shutil
from pathlib import Path

from recap.core.errors import ConfigError

STORE = Path("mlflow/mlflow.db")


def existing_paths(profile: str) -> list[Path]:
    """Return the existing folders and files of a profile.

    Raises:
        ConfigError: the name is not a plain name.
    """
    if not profile or profile != Path(profile).name or profile in (".", ".."):
        raise ConfigError(f"{profile!r} is not the name of a profile, such as demo")
    paths = [Path(folder) / profile for folder in ("results", "reports", "work", "logs")]
    published = STORE.parent / f"{profile}.published.json"
    return [path for path in [*paths, published] if path.exists()]


def remove(profile: str) -> None:
    """Remove ``existing_paths`` and the profile's runs in MLflow.

    Raises:
        RecapError: MLflow's store cannot be written.
    """
    if STORE.exists():
        from recap.tracking.publish import remove_runs

        remove_runs(profile=profile, store=STORE)
    for path in existing_paths(profile):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
