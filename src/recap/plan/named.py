"""The plan of a paper by its name, or of a profile by its file, at one of its scales."""

from __future__ import annotations

from pathlib import Path

from recap.core.documents import read_mapping
from recap.core.errors import UnknownName, nearest
from recap.plan.load import PARAMS, unchecked_plan
from recap.plan.run_plan import RunPlan
from recap.settings.params import profiles

PAPER = "paper"  # the scale of papers at which nothing is replaced


def named_plan(params: Path, name: str, *, scale: str | None = None, inputs: str | None = None) -> RunPlan:
    """Return the plan of a paper (`params/NAME/profile.yaml`) or another profile (`params/NAME.yaml`, or a file).

    It may want GPUs that are not here.

    Args:
        params: the folder of parameter files.
        name: of the paper or profile, or path of the file.
        scale: default: `paper` where the profile has it, else its first or only one.
        inputs: in place of the profile's.
    """
    known = {path.parent.name if path.name == "profile.yaml" else path.stem: path for path in profiles(params)}
    file = Path(name) if name.endswith((".yaml", ".yml", ".json")) else known.get(name)
    if file is None or not file.is_file():
        raise UnknownName(f"{name}: no such profile; {nearest(name, known)}")
    config = read_mapping(file)
    scales = list(config.get("scales") or {})
    if scale is None and scales:
        scale = PAPER if PAPER in scales else scales[0]
    given = {"scale": scale, "inputs": inputs}
    return unchecked_plan({**config, **{key: value for key, value in given.items() if value}, PARAMS: str(params)})
