"""Results to and from a DVC remote; DVC and Snakemake run as commands.

DVC asks the remote for the listing of a folder, does not compare it with the checksum in
`dvc.lock`, and follows every path and every md5 in it, also out of the folder and out of its cache.
So the listings travel in git, beside `dvc.lock`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recap.core.documents import read_json, write_json
from recap.core.errors import ConfigError, DataError, RecapError, UnknownName, nearest
from recap.core.files import atomic_path, write_text
from recap.core.log import NOTHING_TO_DO, log
from recap.settings.params import load_profile, read_mapping, validate

LOCK = Path("dvc.lock")
LISTINGS = Path("dvc.listings.json")
PROFILES = Path("dvc.profiles.yaml")
_PROFILES_HEAD = """\
# The profiles that DVC keeps: name of the results -> options of Snakemake. \
`recap artifacts add` writes an entry:
#     recap artifacts add params/flickr8k.yaml --inputs /data/flickr8k --fetch --conda
"""
DIR = ".dir"  # ends the name of a folder's listing in DVC's cache


@dataclass(frozen=True)
class _Profile:
    options: str


@dataclass(frozen=True)
class _Profiles:
    """What `dvc.profiles.yaml` holds."""

    profiles: dict[str, _Profile]


@dataclass(frozen=True)
class _Output:
    path: str
    md5: str


@dataclass(frozen=True)
class _Stage:
    outs: Sequence[_Output] = ()


@dataclass(frozen=True)
class _Lock:
    """What is read of `dvc.lock`."""

    stages: dict[str, _Stage]


def read_profiles() -> dict[str, list[str]]:
    """Return the options with which Snakemake reads each profile that DVC keeps."""
    entries = validate(_Profiles, read_mapping(PROFILES), str(PROFILES)).profiles
    return {name: shlex.split(entry.options) for name, entry in entries.items()}


def add_profile(
    file: Path, *, scale: str | None, inputs: str | None, fetch: bool, conda: bool
) -> str:
    """Add a profile, or replace its options, and return its name."""
    import yaml

    values = read_mapping(file)
    pairs = []
    if scale:
        values["scale"] = scale
        pairs.append(f"scale={scale}")
    if inputs is not None:
        pairs.append(f"inputs={inputs}")
    if fetch:
        pairs.append("fetch=true")
    name = load_profile(values, str(file)).name
    words = ["--sdm", "conda"] if conda else []
    words += ["--configfile", str(file)]
    if pairs:
        words += ["--config", *pairs]
    if set("${}\n") & set("".join(words)):
        raise ConfigError(
            f"{shlex.join(words)}: has a dollar sign, a brace or a line break, which DVC takes for "
            "something else; use a folder without them"
        )
    profiles = {**(read_profiles() if PROFILES.exists() else {}), name: words}
    entries = {name: {"options": shlex.join(words)} for name, words in profiles.items()}
    write_text(
        PROFILES,
        _PROFILES_HEAD + yaml.safe_dump({"profiles": entries}, sort_keys=False, width=10_000),
    )
    return name


def push(profile: str | None = None, *, inputs: str | None = None) -> None:
    """Record finished results, of one profile or all that have some,
    in dvc.lock and send them to the DVC remote."""
    if profile:
        names = [profile]
    else:
        names = [name for name in read_profiles() if Path("results", name).exists()]
    if not names:
        raise ConfigError(
            f"{PROFILES}: none of its profiles has results here; run Snakemake before pushing"
        )
    options = {name: _options(name, inputs) for name in names}
    remote = _verified_remote()
    for name in names:
        if NOTHING_TO_DO not in _snakemake(options[name], "--dry-run", "kept_all"):
            raise RecapError(
                f"results/{name}: some jobs have not run yet; run Snakemake before pushing"
            )
        stages = _stages(name)
        _dvc("commit", "--force", *stages)
        _dvc("push", *stages)
        cache = Path(_dvc("cache", "dir").strip())
        listings = _listings()
        for path, md5 in outputs(name).items():
            if md5.endswith(DIR):
                listings[path] = read_json(cache / _place(md5))
        write_json(LISTINGS, listings)
        log.info(
            f"{name}: in the DVC remote {remote}; now commit {LOCK}, {LISTINGS} and .dvc/config to "
            "git: a clone pulls what they name"
        )


def pull(profile: str | None = None, *, inputs: str | None = None) -> None:
    """Pull results, of one profile or all in dvc.lock, from the DVC remote, mark them as up to date
    for Snakemake, and publish them in MLflow.

    The remote is not trusted: results are written when every file has the md5 that dvc.lock and the
    listings name.
    """
    names = [profile] if profile else list(read_profiles())
    options = {name: _options(name, inputs) for name in names}
    locked = {name: outputs(name) for name in names if outputs(name)}
    if not locked:
        raise DataError(
            f"{LOCK}: names no results of {', '.join(options)}; `recap artifacts push` adds them"
        )
    remote = _verified_remote()
    for name, outs in locked.items():
        _check_unchanged(name, outs)
        _fetch(outs, remote)
        _dvc("checkout", *outs)  # it keeps files that are in none of its versions, and names one
        _snakemake(options[name], "--cores", "1", "--touch", "--forceall", "kept_all")
        view = f"mlflow/{name}.published.json"
        _snakemake(options[name], "--cores", "1", view, "--allowed-rules", "track_init", "publish")
        log.info(f"{name}: pulled from the DVC remote {remote} and published in MLflow")


def _check_unchanged(profile: str, outs: Mapping[str, str]) -> None:
    """Refuse results that other parameters or other source made, before they are here.

    They would be marked as up to date; without a mark, Snakemake compares times alone.
    """
    changed: list[str] = []
    for stage in json.loads(_dvc("status", "--json", *_stages(profile))).values():
        for entry in stage:
            if not isinstance(entry, dict):  # "changed command"
                changed += ["dvc.yaml", str(PROFILES)]
                continue
            for paths in entry.values():  # {"changed deps": {"params": "modified"}}
                changed += [path for path in paths if path not in outs]
    if not changed:
        return
    pushed = outs.get(f"reports/{profile}", "")
    commit = [*_git("log", "--format=%h", "-S", pushed, "--", str(LOCK)), "HEAD"][0]
    files = _git("diff", "--name-only", "--relative", commit, "--", *changed)
    files += _git("ls-files", "--others", "--exclude-standard", "--", *changed)
    raise RecapError(
        f"{[*files, *changed][0]}: differs from commit {commit}, which made the results of "
        f"{profile}; no results were written: put your changes aside (git stash "
        f"--include-untracked), check out {commit}, pull there, and come back"
    )


def _stages(profile: str) -> list[str]:
    """Return the stages of a profile in dvc.yaml."""
    names = _dvc("stage", "list", "--name-only").split()
    return [name for name in names if name.endswith(f"@{profile}")]


def outputs(profile: str) -> dict[str, str]:
    """Return path -> md5 of a profile's results that `dvc.lock` names.

    Of a folder that of its listing, and `.dir`.
    """
    folders = (f"results/{profile}/", f"reports/{profile}/")
    outs = {}
    for stage in validate(_Lock, read_mapping(LOCK), str(LOCK)).stages.values():
        for out in stage.outs:
            if f"{out.path}/".startswith(folders):
                outs[out.path] = out.md5
    return outs


def read_listings(outs: Mapping[str, str]) -> dict[str, bytes]:
    """Return git's listings of folders by path, with their bytes in DVC's cache."""
    values = _listings()
    folders = [path for path, md5 in outs.items() if md5.endswith(DIR)]
    listings = {path: json.dumps(values.get(path), sort_keys=True).encode() for path in folders}
    for path, text in listings.items():
        if hashlib.md5(text, usedforsecurity=False).hexdigest() + DIR != outs[path]:
            raise DataError(
                f"{LISTINGS}: the files of {path} are missing or not those that {LOCK} names; run "
                "`recap artifacts push` where the results are, and commit both files"
            )
    return listings


def listed_files(outs: Mapping[str, str], listings: Mapping[str, bytes]) -> dict[str, str]:
    """Return path -> md5 of every file.

    One that would be written elsewhere than in its folder is refused.
    """
    files = {path: md5 for path, md5 in outs.items() if path not in listings}
    for folder, text in listings.items():
        files |= {f"{folder}/{entry['relpath']}": entry["md5"] for entry in json.loads(text)}
    for file, md5 in files.items():
        if os.path.normpath(file) != file or not re.fullmatch("[0-9a-f]{32}", md5):
            raise DataError(
                f"{LISTINGS}: {file!r} leads elsewhere or has no md5; restore it from git"
            )
        for parent in Path(file).parents:
            # results and results/PROFILE may be the user's links
            if len(parent.parts) > 2 and parent.is_symlink():
                raise DataError(
                    f"{parent}: is a symbolic link, through which nothing is written; remove it"
                )
    return files


def _fetch(outs: Mapping[str, str], remote: str) -> None:
    """Fetch what DVC's cache lacks; DVC compares each file with its md5."""
    cache = Path(_dvc("cache", "dir").strip())
    listings = read_listings(outs)
    files = listed_files(outs, listings)
    for folder, text in listings.items():  # DVC asks the remote for those that are not in its cache
        with atomic_path(cache / _place(outs[folder])) as temporary:
            temporary.write_bytes(text)
    reason = ""
    try:
        _dvc("fetch", *outs)  # it may leave out what it refuses, and end as if all were there
    except RecapError as error:
        reason = f" ({error})"
    for file, md5 in files.items():
        if not (cache / _place(md5)).exists():
            raise RecapError(
                f"{file}: damaged or missing in the DVC remote {remote}, or it cannot be reached; "
                f"no results were written: restore {_place(md5)} there "
                f"(docs/guides/artifacts.md) and repeat the command{reason}"
            )


def _listings() -> dict[str, Any]:
    return read_json(LISTINGS, dict[str, Any]) if LISTINGS.exists() else {}


def _place(md5: str) -> str:
    """Return where an object is in DVC's cache, and in a remote."""
    return f"files/md5/{md5[:2]}/{md5[2:]}"


def _verified_remote() -> str:
    """Return the name of the DVC remote, after setting that DVC verifies what it fetches."""
    try:
        remote = _dvc("remote", "default").strip()
    except RecapError as error:
        raise ConfigError(f"{error}; set one: dvc remote add -d NAME FOLDER_OR_URL") from error
    _dvc("remote", "modify", remote, "verify", "true")
    return remote


def _options(profile: str, inputs: str | None) -> list[str]:
    """Return the options with which Snakemake reads a profile,
    with another folder of outside files if one is named."""
    profiles = read_profiles()
    if profile not in profiles:
        raise UnknownName(f"{PROFILES}: names no profile {profile!r}; {nearest(profile, profiles)}")
    options = profiles[profile]
    if inputs:
        options += [*([] if "--config" in options else ["--config"]), f"inputs={inputs}"]
    return options


def _snakemake(options: Sequence[str], *arguments: str) -> str:
    """Run Snakemake on a profile, whose options come last: `--config` takes all that follows."""
    done = _run("snakemake", *arguments, *options)
    return done.stdout + done.stderr


def _dvc(*arguments: str) -> str:
    """Run DVC and return what it printed as its result."""
    return _run("dvc", *arguments).stdout


def _git(*arguments: str) -> list[str]:
    """Return the lines that git prints; none where it fails."""
    done = subprocess.run(["git", *arguments], capture_output=True, text=True)
    return done.stdout.splitlines() if done.returncode == 0 else []


def _run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module's command; if it fails, its first error line becomes the message."""
    # `-P` keeps the project's folder off the path of modules,
    # so that no file in it runs in place of an installed one.
    command = [sys.executable, "-P", "-m", module, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        output = (done.stdout + done.stderr).strip()
        # The first error; DVC names a file in the line after it.
        error = re.search(r"^(?:ERROR|recap): (.+(?:\n(?!ERROR|recap).+)?)", output, re.MULTILINE)
        reason = " ".join(error[1].split()) if error else output.rpartition("\n")[2] or "no output"
        raise RecapError(
            f"{module} {arguments[0]} failed (exit status {done.returncode}): {reason}"
        )
    return done
