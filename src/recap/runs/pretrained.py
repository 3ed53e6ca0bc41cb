"""The file of pretrained weights that a training begins with."""

from __future__ import annotations

import re
from pathlib import Path

from recap.core.errors import ConfigError, first_line
from recap.settings.base import HUB

FILE = "model.safetensors"


def pretrained_file(source: str | None, given: Path | None) -> Path | None:
    """Return the file, fetched from the hub if the settings name one there.

    `source` is `weights` of the model's settings, `given` the file named on the command line.
    """
    if source is None:
        if given is not None:
            raise ConfigError(
                f"--weights {given}: the model's settings name no weights; set its `weights`, or leave it out"
            )
        return None
    if source.startswith(HUB):
        return given or _fetched(source)
    if given is None:
        raise ConfigError(f"the model begins with the weights {source!r}; name their file with --weights")
    return given


def _fetched(source: str) -> Path:
    """Return the file in the hub's cache; a revision is required, so that a run stays what it is."""
    found = re.fullmatch(r"hub:([^@]+)@([0-9a-f]{40})", source)
    if found is None:
        raise ConfigError(f"weights {source!r}: write hub:NAME@REVISION with the 40 digits of a commit of the hub")
    try:
        from huggingface_hub import hf_hub_download
    except ImportError as error:
        raise ConfigError(f"weights {source!r}: needs the package huggingface_hub; pip install 'recap[hub]'") from error
    try:
        return Path(hf_hub_download(found[1], FILE, revision=found[2]))
    except Exception as error:  # the library raises a dozen kinds, its own and of its transports
        raise ConfigError(
            f"{source}: cannot be fetched ({first_line(error)}); without a network, put {FILE} into the folder "
            "`inputs` and name it as `weights` of the model"
        ) from error
