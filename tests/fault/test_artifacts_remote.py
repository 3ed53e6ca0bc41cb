"""A remote that others can change:
`recap artifacts pull` writes the files that were pushed, or nothing."""

import hashlib
import json
import shutil
import subprocess
import sys

import pytest

from recap.cli import main
from recap.core.log import NOTHING_TO_DO
from recap.share import dvc as dvc_commands

PROFILES = "profiles: {mine: {options: --configfile params/mine.yaml}}"
STAGES = """
vars: [dvc.profiles.yaml]
stages:
  data:
    foreach: ${profiles}
    do:
      cmd: "true"
      outs:
        - results/${key}/data:
            persist: true
        - results/${key}/curves.csv:
            persist: true
"""
PUSHED = {
    "results/mine/data/a/corpus.txt": b"words",
    "results/mine/data/b.json": b"{}",
    "results/mine/curves.csv": b"1\n",
}


def dvc(folder, *arguments):
    subprocess.run(
        [sys.executable, "-P", "-m", "dvc", *arguments, "--quiet"], cwd=folder, check=True
    )


@pytest.fixture(autouse=True)
def published(monkeypatch):
    """In place of Snakemake, which is asked whether all is done, and to publish."""
    monkeypatch.setattr(dvc_commands, "_snakemake", lambda *_: NOTHING_TO_DO)


@pytest.fixture(scope="module")
def pushed(tmp_path_factory):
    """A project whose results are in a folder as remote."""
    home = tmp_path_factory.mktemp("pushed")
    project = home / "project"
    for file, content in PUSHED.items():
        (project / file).parent.mkdir(parents=True, exist_ok=True)
        (project / file).write_bytes(content)
    (project / "dvc.yaml").write_text(STAGES)
    (project / "dvc.profiles.yaml").write_text(PROFILES)
    dvc(project, "init", "--no-scm")
    dvc(project, "remote", "add", "-d", "store", "../store")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        patch.setattr(dvc_commands, "_snakemake", lambda *_: NOTHING_TO_DO)
        main(["artifacts", "push"])
    return home


@pytest.fixture
def clone(pushed, tmp_path, monkeypatch):
    """A copy of the remote, and a clone of the project beside it, which has no results yet."""
    shutil.copytree(pushed / "store", tmp_path / "store")
    clone = tmp_path / "clone"
    (clone / ".dvc").mkdir(parents=True)
    for name in ("dvc.yaml", "dvc.profiles.yaml", "dvc.lock", "dvc.listings.json", ".dvc/config"):
        shutil.copy(pushed / "project" / name, clone / name)
    monkeypatch.chdir(clone)
    return clone


def pull(capsys):
    """Return the sentence of a refused pull, or "" if it succeeded."""
    capsys.readouterr()
    try:
        main(["artifacts", "pull"])
    except SystemExit as stopped:
        (sentence,) = capsys.readouterr().err.strip().splitlines()
        assert stopped.code == 2
        return sentence
    return ""


def results(clone):
    return {
        str(file.relative_to(clone)): file.read_bytes()
        for file in clone.glob("results/**/*")
        if file.is_file()
    }


def elsewhere(clone):
    """Return all files but results, what DVC keeps for itself, and the remote."""
    found = (
        file for file in clone.parent.rglob("*") if not file.is_relative_to(clone.parent / "store")
    )
    own = (clone / "results", clone / ".dvc" / "cache", clone / ".dvc" / "tmp")
    return {file for file in found if not any(file.is_relative_to(folder) for folder in own)}


def at(store, content):
    """Put an object into the remote and return its md5."""
    md5 = hashlib.md5(content).hexdigest()
    file = store / "files" / "md5" / md5[:2] / md5[2:]
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    return md5


def listing(store):
    return next(store.glob("files/md5/*/*.dir"))


def added(**entry):
    """Return what adds an entry to the remote's listing.

    ``md5`` is that of code where none is given.
    """

    def change(store):
        file = listing(store)
        code = {"md5": at(store, b"raise SystemExit('this ran')")}
        text = json.dumps([*json.loads(file.read_text()), {**code, **entry}])
        file.chmod(0o644)
        file.write_text(text)

    return change


def outside(store):
    """Name an object by a path that leads out of the cache, and put it where DVC looks for it."""
    (store.parent / "evil").write_text("evil")
    added(md5="../../../evil", relpath="x")(store)


def several(store):
    for path in ("/tmp/recap-was-here", "b.json", "c", ""):
        added(relpath=path)(store)
    added(relpath="d", md5="ab")(store)


def spoilt(store):
    listing(store).chmod(0o644)
    listing(store).write_text("[")


HOSTILE = {
    "a path above the folder": added(relpath="../../../snakemake.py"),
    "an md5 out of the cache": outside,
    "several": several,
    "no JSON": spoilt,
    "no listing": lambda store: listing(store).unlink(),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_a_changed_listing_in_the_remote_changes_nothing_here(clone, capsys, change):
    change(clone.parent / "store")
    before = elsewhere(clone)
    said = pull(capsys)
    assert elsewhere(clone) == before
    assert results(clone) == ({} if said else PUSHED)


def test_a_damaged_file_is_refused_and_the_same_command_takes_the_repaired_one(clone, capsys):
    md5 = hashlib.md5(PUSHED["results/mine/data/b.json"]).hexdigest()
    file = clone.parent / "store" / "files" / "md5" / md5[:2] / md5[2:]
    file.chmod(0o644)
    file.write_bytes(b"{!")
    said = pull(capsys)
    assert (
        "results/mine/data/b.json: damaged or missing in" in said
        and f"files/md5/{md5[:2]}/{md5[2:]}" in said
    )
    assert results(clone) == {}
    file.write_bytes(b"{}")
    assert pull(capsys) == ""
    assert results(clone) == PUSHED
    # A file of the user's own is not written over.
    (clone / "results/mine/data/b.json").unlink()
    (clone / "results/mine/data/b.json").write_text("mine")
    assert str(clone / "results/mine/data/b.json") in pull(capsys)
    assert results(clone)["results/mine/data/b.json"] == b"mine"
