"""A trained run as one folder that needs no other file, for the HuggingFace hub or for a colleague; and back."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml

from recap.captioning.card import model_card
from recap.captioning.extractors import FEATURES, read_extractors, write_extractors
from recap.captioning.run_files import CONFIG, VOCABULARY, find_run_files
from recap.core.checksums import NAME as SUMS
from recap.core.checksums import record
from recap.core.errors import ConfigError, first_line
from recap.core.files import atomic_path, write_text
from recap.runs.weights import read_weights
from recap.settings.base import HUB
from recap.settings.params import read_mapping

WEIGHTS, CARD = "model.safetensors", "README.md"
_REVISION = re.compile(r"hub:(\w[\w.-]*/\w[\w.-]*)@([0-9a-f]{40})")


def export_hub(
    run: Path,
    out: Path,
    *,
    params: Path,
    vocabulary: Path | None = None,
    features: Sequence[Path] = (),
    weights: Path | None = None,
) -> None:
    """Write a run with its vocabulary, what makes its features, and a card into a new folder.

    Args:
        run: as `recap.load` takes it.
        out: the folder; it is there when it is whole.
        params: folder of the parameter files, whose list of outside files has the licenses of the data.
        vocabulary, features, weights: as `recap.load` takes them.

    Raises:
        RecapError: a file of the run is missing or damaged, or the folder has files already.
    """
    files = find_run_files(run, vocabulary=vocabulary, features=features, weights=weights)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out}: is there already; name a new folder")
    read_weights(files.run / WEIGHTS)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        made_from = read_mapping(files.run / CONFIG)
        made_from |= {"name": files.name, "decoding": files.decoding.model_dump(mode="json")}
        write_text(part / CONFIG, yaml.safe_dump(made_from, sort_keys=True))
        files.vocabulary.save(part / VOCABULARY)
        described = write_extractors(part, files.extractors)
        with atomic_path(part / WEIGHTS) as temporary:
            shutil.copyfile(files.run / WEIGHTS, temporary)
        write_text(part / CARD, model_card(files, made_from["spec"], params))
        record(part / CONFIG, part / VOCABULARY, part / CARD, *described)
        part.chmod(0o755)
        part.replace(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def fetch_run(name: str) -> Path:
    """Return the folder of an exported run that is on the hub, in the hub's cache.

    Args:
        name: ``hub:OWNER/NAME@REVISION``; the revision is required, so that the model stays what it is.

    Raises:
        ConfigError: the name lacks a revision, huggingface_hub is not installed, or the hub cannot be reached.
    """
    found = _REVISION.fullmatch(name)
    if found is None:
        raise ConfigError(f"{name}: write {HUB}OWNER/NAME@REVISION with the 40 digits of a commit of the hub")
    folder = _fetched(name, found[1], found[2], [CONFIG, VOCABULARY, WEIGHTS, FEATURES, SUMS])
    _fetched(name, found[1], found[2], _weights_of(folder))
    return folder


def _weights_of(folder: Path) -> list[str]:
    """Return the weights of extractors that an exported run names; they need not be there yet."""
    return [each.weights.name for each in read_extractors(folder, complete=False) if each.weights]


def _fetched(name: str, repository: str, revision: str, files: Sequence[str]) -> Path:
    try:
        from huggingface_hub import hf_hub_download
    except ImportError as error:
        raise ConfigError(f"{name}: needs the package huggingface_hub; pip install 'recap[hub]'") from error
    folder = Path()
    for file in files:
        try:
            folder = Path(hf_hub_download(repository, file, revision=revision)).parent
        except Exception as error:  # the library raises a dozen kinds, its own and of its transports
            raise ConfigError(
                f"{name}: {file} cannot be fetched ({first_line(error)}); without a network, copy the folder and name "
                "its path"
            ) from error
    return folder
