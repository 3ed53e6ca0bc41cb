"""Each room keeps to its budget of lines and files, `[tool.recap.budget]` in pyproject.toml."""

import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUDGET = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["recap"]["budget"]
PYTHON = (".py", ".smk", "")
COUNTED = (*PYTHON, ".html", ".js", ".css", ".j2", ".yaml")


def files_of(room):
    """Return the files of a room: a folder of the package, `face` for the files beside these, or `workflow`."""
    package = ROOT / "src" / "recap"
    if room == "workflow":
        files = [ROOT / "Snakefile", *(path for path in (ROOT / "workflow").rglob("*") if "schemas" not in path.parts)]
    elif room == "face":
        files = [*package.glob("*.py"), *(ROOT / "src" / "snakemake_logger_plugin_recap").glob("*.py")]
    else:
        files = (package / room).rglob("*")
    return [path for path in files if path.is_file() and path.suffix in COUNTED and "__pycache__" not in path.parts]


@pytest.mark.parametrize("room", BUDGET)
def test_a_room_keeps_to_its_budget(room):
    files = files_of(room)
    lines = sum(len(path.read_text().splitlines()) for path in files)
    count = sum(path.suffix in PYTHON for path in files)
    assert lines <= BUDGET[room][0] and count <= BUDGET[room][1], f"{room}: {lines} lines in {count} files"


def test_every_room_has_a_budget():
    rooms = {path.parent.name for path in (ROOT / "src" / "recap").glob("*/__init__.py")}
    assert rooms | {"workflow", "face"} == set(BUDGET)
