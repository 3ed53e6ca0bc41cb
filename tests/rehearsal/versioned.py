"""DVC in a rehearsal's folder: a repository of its own, in whose five stages everything is made already."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from recap.core.errors import RecapError
from recap.share.dvc import add_profile
from rehearsal.workflow import Workflow

_PROJECT = ("Snakefile", "dvc.yaml", ".dvcignore", ".gitignore", ".dvc/config", "workflow", "profiles", "src")
_GIT = ("git", "-c", "user.name=rehearsal", "-c", "user.email=rehearsal@localhost")


def repro(workflow: Workflow) -> None:
    """Run `dvc repro` in the working folder.

    Args:
        workflow: of the folder; its Snakefile is that of the project.
    """
    project = workflow.snakefile.parent
    for place in _PROJECT:
        source, copy = project / place, Path(place)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
    name = add_profile(workflow.configfile, scale=None, inputs=None, fetch=False, conda=False)
    environment = workflow.environment() | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    if not Path(".git").exists():
        for words in (["init", "-q"], ["add", "Snakefile", "dvc.yaml", ".gitignore"], ["commit", "-q", "-m", name]):
            _call([*_GIT, *words], environment)
    _call([sys.executable, "-P", "-m", "dvc", "repro", "--quiet", f"report@{name}"], environment)


def _call(words: list[str], environment: Mapping[str, str]) -> None:
    """Run a command, whose messages go to standard error."""
    if subprocess.run(words, stdout=2, env=environment).returncode:
        raise RecapError(f"the rehearsal ({' '.join(words[-3:])}) failed; the messages above say why")
