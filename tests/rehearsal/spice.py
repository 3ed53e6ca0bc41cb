"""SPICE's models in a rehearsal: their install is killed and repeated, beside a copy of pycocoevalcap.

They belong to the environment of the workflow, so that no rule makes them. The miniatures are archives without classes:
they show that the files arrive whole and at their place, not that SPICE runs with them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from threading import Event

import numpy as np

from recap.core.errors import RecapError
from recap.core.hashing import sha256_file
from recap.metrics.spice import MODEL_JARS, SPICE_MODELS
from rehearsal.archives import write_zip
from rehearsal.faults import Misbehavior, stalling
from rehearsal.files import write_list
from rehearsal.prepare import INPUTS, SITE
from rehearsal.workflow import kill_at


def kill_install(faults: Misbehavior, *, versions: Path, url: str, environment: Mapping[str, str]) -> int:
    """Kill `recap data spice` in the middle of the larger model, repeat it, and return how many the kill left.

    The models go to a copy of pycocoevalcap in the working folder, and nothing into that of the environment.
    ``versions`` is the project's list of outside files, ``url`` the server's address, ``environment`` the command's.
    """
    listed, inputs = Path("spice.csv"), Path(INPUTS)
    _write_models(versions, listed, url)
    package = _copied(Path("spice"))
    folder = package / "spice" / "lib"
    places = [folder / jar for jar in MODEL_JARS]
    command = [sys.executable, "-P", "-m", "recap", "data", "spice", "--list", str(listed), "--into", str(inputs)]
    paths = (str(package.parent.absolute()), environment["PYTHONPATH"])
    own = {**environment, "PYTHONPATH": os.pathsep.join(paths)}
    reached = Event()
    faults.begin({SPICE_MODELS[-1]: stalling(reached)})
    kill_at(
        command, own, lambda: reached.is_set() and any(inputs.glob("spice/*.part")), "spice: the install of its models"
    )
    there = [place for place in places if place.exists()]
    _check_whole(there)
    again = subprocess.run(command, env=own, capture_output=True, text=True)
    if again.returncode or again.stdout.split() != [str(place.resolve()) for place in places]:
        raise RecapError(f"spice: the same command did not install its models:\n{again.stdout}{again.stderr}")
    _check_whole(places)
    if left := [*inputs.glob("spice/*.part*"), *folder.glob("*.part*")]:
        raise RecapError(f"{left[0]}: was left by the install of SPICE's models")
    # A workflow that found them would install miniatures into the environment.
    for each in (Path(SITE, "spice"), inputs / "spice"):
        shutil.rmtree(each)
    return len(there)


def _write_models(source: Path, out: Path, url: str) -> None:
    """Write miniatures of the models into the folder that is served, and a list of outside files that names them."""
    random = np.random.default_rng(0)
    models = {name: Path(SITE, name) for name in SPICE_MODELS}
    for path in models.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_zip(path, {"META-INF/MANIFEST.MF": "Manifest-Version: 1.0\n", "noise": random.bytes(200_000)})
    write_list(source, out, served=models, url=url)


def _check_whole(places: list[Path]) -> None:
    for place in places:
        if sha256_file(place) != sha256_file(Path(SITE, "spice", place.name)):
            raise RecapError(f"{place}: is not what is served")


def _copied(copy: Path) -> Path:
    """Return a pycocoevalcap of links to the installed one, in whose folder of SPICE's jars no model is."""
    spec, package = find_spec("pycocoevalcap"), copy / "pycocoevalcap"
    if spec is None or not spec.submodule_search_locations:
        raise RecapError("pycocoevalcap is not installed, and SPICE's models have no place")
    if not package.exists():
        _link(Path(next(iter(spec.submodule_search_locations))).resolve(), package, opened=("spice", "lib"))
    return package


def _link(source: Path, folder: Path, *, opened: tuple[str, ...]) -> None:
    """Link what is in a folder; the folders that are opened one in the other are folders of links."""
    folder.mkdir(parents=True)
    for each in source.iterdir():
        if opened and each.name == opened[0]:
            _link(each, folder / each.name, opened=opened[1:])
        elif each.name not in MODEL_JARS:
            (folder / each.name).symlink_to(each)
