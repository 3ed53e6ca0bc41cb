"""The full state of a training, saved so that a kill at any moment costs at most one interval.

torch writes a zip, whose members carry a CRC each; torch does not look at them when it reads, so they are checked here.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recap.core.errors import TrainingError, first_line, listed
from recap.core.files import atomic_path
from recap.core.hashing import differences
from recap.core.log import log
from recap.training.distributed import Group

VERSION = 4
STATE, BEST = "last.pt", "best.safetensors"
_PREVIOUS = "previous."  # begins the names of a state that was set aside
Identity = dict[str, Any]  # settings, inputs, source: all that a training depends on, as plain values


def save_state(folder: Path, state: dict[str, Any], *, identity: Identity, random_states: dict[str, Tensor]) -> None:
    """Write `folder/last.pt` atomically: tensors, numbers and `Group.random_states`."""
    with atomic_path(folder / STATE) as temporary:
        torch.save({"version": VERSION, "identity": identity, "random": random_states, **state}, temporary)


def load_state(folder: Path) -> dict[str, Any] | None:
    """Return what `folder/last.pt` holds, or None if there is no such file; a damaged one is refused."""
    path = folder / STATE
    if not path.exists():
        return None
    try:
        _check(path)
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = first_line(error) if isinstance(error, zipfile.BadZipFile) else type(error).__name__
        raise TrainingError(f"{path}: is damaged ({reason}); delete it to start over") from error
    return state


def restore_random_states(state: dict[str, Any], rank: int = 0) -> None:
    """Give torch the random states that a process had when its state was saved."""
    torch.set_rng_state(state["random"]["cpu"][rank].clone())
    if "cuda" in state["random"] and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["random"]["cuda"][rank].clone())


def mismatch(state: dict[str, Any], identity: Identity) -> str:
    """Return in what the training that saved a state differs from this one; empty if it is this very one."""
    if state["version"] != VERSION:
        return f"format {state['version']} in place of {VERSION}"
    return listed(differences(state["identity"], identity))


def has_more_epochs(old: Identity, new: Identity) -> bool:
    """Return whether two trainings differ only in more epochs, before which nothing changes.

    A cosine depends on the number of epochs; a last epoch that was validated out of turn may have dropped the rate.
    """
    before, after = (identity["settings"].get("stage_settings", {}) for identity in (old, new))
    raised = {**old["settings"], "stage_settings": {**before, "epochs": after.get("epochs")}}
    return (
        {**old, "settings": raised} == new
        and after["epochs"] > before["epochs"]
        and after["schedule"]["kind"] != "cosine"
        and before["epochs"] % before.get("validate_every", 1) == 0
    )


def set_aside(folder: Path, reason: str) -> None:
    """Keep a state that is not continued, with its best weights, in place of the one that was kept before."""
    for name in (BEST, STATE):
        if (folder / name).exists():
            (folder / name).replace(folder / f"{_PREVIOUS}{name}")
    log.warning(
        f"{folder / STATE}: the state of another training ({reason}), which starts over; "
        f"the old state is kept as {_PREVIOUS}{STATE} until the next one is"
    )


def continued(
    folder: Path, identity: Identity, *, keep: bool = False, group: Group | None = None
) -> dict[str, Any] | None:
    """Return the state that this very training left in a folder, with torch's random states as they were, or None.

    A training with fewer epochs is continued where they do not matter. The state of another training is set aside, or
    refused if `keep` says to leave it alone.
    """
    group, saved = group or Group(), load_state(folder)
    if saved is None:
        return None
    reason = mismatch(saved, identity)
    if not reason or (saved["version"] == VERSION and has_more_epochs(saved["identity"], identity)):
        restore_random_states(saved, group.rank)
        return saved
    if keep:
        raise TrainingError(
            f"{folder / STATE}: the state of another training ({reason}), and keep_state refuses to start over; undo "
            "what differs, or move the folder away"
        )
    group.barrier()  # until all processes have read it
    if group.is_main:
        set_aside(folder, reason)
    return None


def _check(path: Path) -> None:
    """Compare every member of a zip with its CRC."""
    with zipfile.ZipFile(path) as file:
        member = file.testzip()
    if member is not None:
        raise zipfile.BadZipFile(f"bad CRC-32 of {member}")
