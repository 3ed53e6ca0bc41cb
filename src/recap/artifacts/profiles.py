"""The profiles that DVC keeps: ``dvc.profiles.yaml``, which the stages of dvc.yaml are made for."""

from __future__ import annotations

import shlex
from pathlib import Path

from recap.core.documents import read_mapping
from recap.core.errors import ConfigError, MissingSettings, nearest
from recap.core.files import write_text
from recap.settings.params import load_profile

PROFILES = Path("dvc.profiles.yaml")
_HEAD = """\
# The profiles that DVC keeps: name of the results -> options of Snakemake. `recap artifacts add` writes an entry:
#     recap artifacts add params/flickr8k.yaml --inputs /data/flickr8k --fetch --conda
"""
_UNSAFE = "${}\n"  # what DVC, Snakemake or YAML would take for something else


def options_by_profile() -> dict[str, list[str]]:
    """Return name -> the options with which Snakemake reads it, of all profiles.

    Raises:
        ConfigError: the file is missing or has another form.
    """
    if not PROFILES.exists():
        raise MissingSettings(f"{PROFILES}: no such file; run this in the project's folder")
    listed = read_mapping(PROFILES).get("profiles")
    found = {}
    for name, entry in listed.items() if isinstance(listed, dict) else ():
        options = entry.get("options") if isinstance(entry, dict) else None
        if not isinstance(options, str):
            raise ConfigError(f"{PROFILES}: {name} has no options; write it with `recap artifacts add`")
        found[str(name)] = shlex.split(options)
    if not found:
        raise ConfigError(f"{PROFILES}: names no profile; `recap artifacts add params/demo.yaml` adds one")
    return found


def chosen(name: str | None, *, folder: str) -> dict[str, list[str]]:
    """Return one profile, or without a name all that have results, each with its options.

    Args:
        name: of the profile.
        folder: what a profile has results by, with ``{}`` for its name.

    Raises:
        ConfigError: there is no such profile.
    """
    known = options_by_profile()
    if name is None:
        return {each: options for each, options in known.items() if Path(folder.format(each)).exists()}
    if name not in known:
        raise ConfigError(f"{PROFILES}: names no profile {name!r}; {nearest(name, known)}")
    return {name: known[name]}


def add(file: Path, *, scale: str | None, inputs: str | None, fetch: bool, conda: bool) -> str:
    """Add a profile, or replace its options, and return its name.

    Args:
        file: of the profile.
        scale: of a paper's profile.
        inputs: folder of outside files; None: the profile's.
        fetch: whether missing outside files are fetched.
        conda: whether detectors run in their conda environment.

    Raises:
        ConfigError: the profile is refused, or an option has a character that DVC would take for something else.
    """
    values = {**read_mapping(file), **({"scale": scale} if scale else {})}
    name = load_profile(values, str(file)).name
    given = {"scale": scale, "inputs": inputs, "fetch": "true" if fetch else None}
    config = [f"{key}={value}" for key, value in given.items() if value is not None]
    words = [*(["--sdm", "conda"] if conda else []), "--configfile", str(file)]
    options = shlex.join([*words, *(["--config", *config] if config else [])])
    if set(options) & set(_UNSAFE):
        raise ConfigError(f"{options}: has a dollar sign, a brace or a line break; use a folder without them")
    known = {each: shlex.join(old) for each, old in (options_by_profile() if PROFILES.exists() else {}).items()}
    _write({**known, name: options})
    return name


def _write(options: dict[str, str]) -> None:
    import yaml

    profiles = {"profiles": {name: {"options": options[name]} for name in options}}
    write_text(PROFILES, _HEAD + yaml.safe_dump(profiles, sort_keys=False, width=10_000))
