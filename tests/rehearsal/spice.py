"""SPICE's models in a rehearsal: their install is killed and repeated, beside a copy of pycocoevalcap.

They belong to the environment of the workflow, so that no rule makes them. The miniatures are archives without classes:
they show that the files arrive whole and at their place, not that SPICE runs with them.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from threading import Event

import numpy as np

from recap.core.errors import RecapError
from recap.core.hashing import sha256_file
from recap.metrics.spice import MODEL_JARS, SPICE_MODELS
from rehearsal.faults import Misbehavior, stalling
from rehearsal.files import write_list
from rehearsal.prepare import INPUTS, SITE

_PACKAGE = "pycocoevalcap"
_POLL = 0.001  # seconds
_BYTES = 200_000


def kill_install(faults: Misbehavior, *, versions: Path, url: str, environment: Mapping[str, str]) -> int:
    """Kill `recap data spice` in the middle of the larger model, repeat it, and return how many the kill left.

    It works in the folder of a rehearsal. The models go to a copy of pycocoevalcap there, and nothing into that of the
    environment.

    Args:
        faults: of the server.
        versions: the project's list of outside files.
        url: address of the server.
        environment: of the command.
    """
    listed, inputs = Path("spice.csv"), Path(INPUTS)
    _write_models(versions, listed, url)
    folder = _copied(Path("spice")) / "spice" / "lib"
    places = [folder / jar for jar in MODEL_JARS]
    command = [sys.executable, "-P", "-m", "recap", "data", "spice", "--list", str(listed), "--into", str(inputs)]
    paths = (str(folder.parent.parent.parent.absolute()), environment["PYTHONPATH"])
    own = {**environment, "PYTHONPATH": os.pathsep.join(paths)}
    reached, release = Event(), Event()
    faults.begin({SPICE_MODELS[-1]: stalling(reached, release)})
    with subprocess.Popen(command, env=own, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        while not (reached.is_set() and any(inputs.glob("spice/*.part"))) and process.poll() is None:
            time.sleep(_POLL)
        if process.poll() is not None:
            raise RecapError("spice: the install of its models ended before it could be killed")
        os.killpg(process.pid, signal.SIGKILL)
    release.set()
    there = [place for place in places if place.exists()]
    _check_whole(there)
    again = subprocess.run(command, env=own, capture_output=True, text=True)
    if again.returncode or again.stdout.split() != [str(place.resolve()) for place in places]:
        raise RecapError(f"spice: the same command did not install its models:\n{again.stdout}{again.stderr}")
    _check_whole(places)
    if left := [*inputs.glob("spice/*.part*"), *folder.glob("*.part*")]:
        raise RecapError(f"{left[0]}: was left by the install of SPICE's models")
    # A workflow that found them would install miniatures into the environment.
    for folder in (Path(SITE, "spice"), inputs / "spice"):
        shutil.rmtree(folder)
    return len(there)


def _write_models(source: Path, out: Path, url: str) -> None:
    """Write miniatures of the models into the folder that is served, and a list of outside files that names them."""
    random = np.random.default_rng(0)
    models = {name: Path(SITE, name) for name in SPICE_MODELS}
    for path in models.values():
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w") as jar:
            jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
            jar.writestr("noise", random.bytes(_BYTES))
    write_list(source, out, served=models, url=url)


def _check_whole(places: list[Path]) -> None:
    for place in places:
        if sha256_file(place) != sha256_file(Path(SITE, "spice", place.name)):
            raise RecapError(f"{place}: is not what is served")


def _copied(copy: Path) -> Path:
    """Return a pycocoevalcap of links to the installed one, in whose folder of SPICE's jars no model is."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise RecapError(f"{_PACKAGE} is not installed, and SPICE's models have no place")
    installed, package = Path(next(iter(spec.submodule_search_locations))).resolve(), copy / _PACKAGE
    if not package.exists():
        _link(installed, package, opened=("spice", "lib"))
    return package


def _link(source: Path, folder: Path, *, opened: tuple[str, ...]) -> None:
    """Link what is in a folder; the folders that are opened one in the other are folders of links."""
    folder.mkdir(parents=True)
    for each in source.iterdir():
        if opened and each.name == opened[0]:
            _link(each, folder / each.name, opened=opened[1:])
        elif each.name not in MODEL_JARS:
            (folder / each.name).symlink_to(each)
