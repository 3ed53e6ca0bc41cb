"""Pushes and pulls the results of one profile with DVC; DVC and Snakemake run as commands and are not imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from recap.core.errors import ConfigError, RecapError
from recap.core.log import log
from recap.core.params import read_mapping

STAGES = Path("dvc.yaml")


def push(*, inputs: str | None = None) -> None:
    """Record the finished results of dvc.yaml's profile in dvc.lock and send them to the DVC remote.

    Args:
        inputs: the folder of outside files; None: the profile's.

    Raises:
        RecapError: results are missing or not up to date, no remote is set, or DVC fails.
    """
    profile = _profile()
    remote = _remote()
    planned = _snakemake(profile, inputs, "--dry-run", "kept_all")
    if "Nothing to be done" not in planned:
        raise RecapError(f"results/{profile}: some jobs have not run yet; run Snakemake before pushing")
    # A run that was killed after its last job has not written the provenance beside the results.
    _snakemake(profile, inputs, "--cores", "1", "save_provenance")
    _dvc("commit", "--force", "--quiet")
    _dvc("push", "--quiet")
    log.info(f"{profile}: in {remote}; now commit dvc.lock (and .dvc/config) to git: a clone pulls what they name")


def pull(*, inputs: str | None = None) -> None:
    """Pull the results that dvc.lock names from the DVC remote and publish them in MLflow, without any training.

    Args:
        inputs: the folder of outside files; None: the profile's.

    Raises:
        RecapError: there is no dvc.lock or no remote, DVC fails, or a pulled file is not the one that was pushed.
    """
    profile = _profile()
    if not Path("dvc.lock").exists():
        raise RecapError(
            "dvc.lock: no such file, so it is unknown which results to pull; `recap artifacts push` writes it"
        )
    remote = _remote()
    _dvc("pull", "--quiet")
    view = f"mlflow/{profile}.published.json"
    _snakemake(profile, inputs, "--cores", "1", view, "--allowed-rules", "track_init", "publish")
    log.info(f"{profile}: pulled from {remote} and published in MLflow")


def _profile() -> str:
    """Return the profile that dvc.yaml names."""
    if not STAGES.exists():
        raise ConfigError(f"{STAGES}: no such file; run this in the project's folder")
    variables = [each for each in read_mapping(STAGES).get("vars", []) if isinstance(each, dict)]
    named = [each["profile"] for each in variables if "profile" in each]
    if not named:
        raise ConfigError(f"{STAGES}: vars names no profile; add `- profile: demo` there")
    return str(named[0])


def _remote() -> str:
    """Return the URL of DVC's default remote; `dvc remote list` would wrap long ones."""
    settings = dict(line.split("=", 1) for line in _dvc("config", "--list").splitlines() if "=" in line)
    name = settings.get("core.remote")
    if name is None:
        raise ConfigError("DVC has no default remote; set one: dvc remote add -d NAME FOLDER_OR_URL")
    return settings.get(f"remote.{name}.url", name)


def _dvc(*arguments: str) -> str:
    """Run DVC and return what it printed."""
    return _run(f"dvc {arguments[0]}", [sys.executable, "-m", "dvc", *arguments])


def _snakemake(profile: str, inputs: str | None, *arguments: str) -> str:
    """Run Snakemake on a profile and return what it printed."""
    command = [sys.executable, "-m", "snakemake", *arguments, "--configfile", f"params/{profile}.yaml"]
    return _run("snakemake", [*command, *(["--config", f"inputs={inputs}"] if inputs else [])])


def _run(name: str, command: list[str]) -> str:
    """Run a command and return its output; if it fails, its first error line becomes the message."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 0:
        return done.stdout + done.stderr
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    prefixes = ("ERROR: ", "recap: ")
    reason = next((line for line in lines if line.startswith(prefixes)), lines[-1] if lines else "no output")
    for prefix in prefixes:
        reason = reason.removeprefix(prefix)
    raise RecapError(f"{name} failed (exit status {done.returncode}): {reason}")
