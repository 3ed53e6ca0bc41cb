"""Pushes and pulls the results of profiles with DVC; DVC and Snakemake run as commands and are not imported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from recap.artifacts.dvc_cache import DvcCache, place
from recap.artifacts.listings import LISTINGS, LOCK, Output, has_outputs, listed, outputs, read_listings, write_listings
from recap.artifacts.profiles import PROFILES, chosen, options_by_profile
from recap.core.errors import ConfigError, RecapError
from recap.core.log import NOTHING_TO_DO, log


def push(profile: str | None = None, *, inputs: str | None = None) -> None:
    """Record the finished results of a profile in dvc.lock and send them to the DVC remote.

    Args:
        profile: its name; None: every profile of dvc.profiles.yaml that has results.
        inputs: the folder of outside files; None: the profile's.

    Raises:
        RecapError: results are missing or not up to date, no remote is set, or DVC fails.
    """
    found, remote = chosen(profile, folder="results/{}"), _remote()
    if not found:
        raise ConfigError(f"{PROFILES}: none of its profiles has results here; run Snakemake before pushing")
    for name, config in found.items():
        _push(name, config, inputs, remote)


def _push(profile: str, config: Sequence[str], inputs: str | None, remote: str) -> None:
    planned = _snakemake(config, inputs, "--dry-run", "kept_all")
    if NOTHING_TO_DO not in planned:
        raise RecapError(f"results/{profile}: some jobs have not run yet; run Snakemake before pushing")
    # A run that was killed after its last job has not written the provenance beside the results.
    _snakemake(config, inputs, "--cores", "1", "save_provenance")
    stages = [stage for stage in _dvc("stage", "list", "--name-only").split() if stage.endswith(f"@{profile}")]
    _dvc("commit", "--force", *stages)
    _dvc("push", *stages)
    cache = _cache()
    write_listings({out.path: cache.read(out.name) for out in outputs(profile) if out.is_folder})
    log.info(
        f"{profile}: in {remote}; now commit {LOCK}, {LISTINGS} and .dvc/config to git: a clone pulls what they name"
    )


def pull(profile: str | None = None, *, inputs: str | None = None) -> None:
    """Pull the results that dvc.lock names from the DVC remote and publish them in MLflow, without any training.

    The remote is not trusted: results are written when every file has the md5 that dvc.lock and the listings name.

    Args:
        profile: its name; None: every profile of dvc.profiles.yaml whose results dvc.lock names.
        inputs: the folder of outside files; None: the profile's.

    Raises:
        RecapError: there is no dvc.lock or no remote, DVC fails, or the remote has other files than those pushed.
    """
    known = options_by_profile()
    if not LOCK.exists():
        raise RecapError(
            f"{LOCK}: no such file, so it is unknown which results to pull; `recap artifacts push` writes it"
        )
    remote = _remote()
    locked = [name for name in known if has_outputs(name)]
    for name in [profile] if profile else locked or list(known)[:1]:
        _pull(name, chosen(name, folder="")[name], inputs, remote)


def _pull(profile: str, config: Sequence[str], inputs: str | None, remote: str) -> None:
    found = outputs(profile)
    # An empty folder for DVC's notes: its own may say what a remote once answered, and which md5 a file once had.
    with tempfile.TemporaryDirectory() as notes:
        _fetch(found, remote, notes)
        # It keeps files that are in none of its versions, and names one.
        _dvc("checkout", *(out.path for out in found), DVC_SITE_CACHE_DIR=notes)
    view = f"mlflow/{profile}.published.json"
    _snakemake(config, inputs, "--cores", "1", view, "--allowed-rules", "track_init", "publish")
    log.info(f"{profile}: pulled from {remote} and published in MLflow")


def _fetch(found: list[Output], remote: str, notes: str) -> None:
    """Fetch what is not in DVC's cache, or damaged there, and compare it with its md5.

    DVC follows the listings in its cache, and asks the remote for those that are not there: so all are put there first.
    """
    cache = _cache()
    files = {out.path: out.name for out in found if not out.is_folder}
    for out, text in read_listings(out for out in found if out.is_folder).items():
        files |= {f"{out.path}/{file}": md5 for file, md5 in listed(out, text).items()}
        cache.add(out.name, text)
    wanted = cache.missing(sorted(set(files.values())))
    failure = None
    if wanted:
        try:
            _dvc("fetch", *(out.path for out in found), DVC_SITE_CACHE_DIR=notes)
        except RecapError as error:
            failure = error
    wrong = cache.missing(wanted)
    if wrong:
        first = next(file for file, md5 in files.items() if md5 in wrong)
        more = f" and {len(wrong) - 1} more files" if len(wrong) > 1 else ""
        reason = f" ({failure})" if failure else ""
        raise RecapError(
            f"{first}{more}: damaged or missing in {remote}, or it cannot be reached; no results were written: restore "
            f"{place(files[first])} there (docs/guides/artifacts.md) and repeat the command{reason}"
        ) from failure
    if failure:
        raise failure


def _cache() -> DvcCache:
    return DvcCache(Path(_dvc("cache", "dir").strip()))


def _remote() -> str:
    """Return the URL of DVC's default remote; `dvc remote list` would wrap long ones."""
    settings = dict(line.split("=", 1) for line in _dvc("config", "--list").splitlines() if "=" in line)
    name = settings.get("core.remote")
    if name is None:
        raise ConfigError("DVC has no default remote; set one: dvc remote add -d NAME FOLDER_OR_URL")
    return settings.get(f"remote.{name}.url", name)


def _dvc(*arguments: str, **environment: str) -> str:
    """Run DVC and return what it printed as its result."""
    return _run(f"dvc {arguments[0]}", "dvc", arguments, environment).stdout


def _snakemake(config: Sequence[str], inputs: str | None, *arguments: str) -> str:
    """Run Snakemake on a profile and return what it printed."""
    given = [f"inputs={inputs}"] if inputs else []
    option = ["--config"] if given and "--config" not in config else []
    done = _run("snakemake", "snakemake", [*arguments, *config, *option, *given], {})
    return done.stdout + done.stderr


def _run(
    name: str, module: str, arguments: Sequence[str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a module's command; if it fails, its first error line becomes the message.

    `-P` keeps the project's folder off the path of modules, so that no file in it runs in place of an installed one.
    """
    command = [sys.executable, "-P", "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode == 0:
        return done
    said = done.stdout + done.stderr
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    # The first error; DVC names a file in the line after it.
    error = re.search(r"^(?:ERROR|recap): (.+(?:\n(?!ERROR|recap).+)?)", said, re.MULTILINE)
    reason = " ".join(error[1].split()) if error else lines[-1] if lines else "no output"
    raise RecapError(f"{name} failed (exit status {done.returncode}): {reason}")
