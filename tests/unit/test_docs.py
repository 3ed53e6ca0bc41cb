"""The reference is made of the settings and commands themselves,
and diagrams of pages are drawn without a network."""

import sys
from enum import Enum
from typing import Literal

import pytest
from pydantic import Field

from helpers.tiny_workspace import ROOT
from recap.settings.base import Strict

sys.path.insert(0, str(ROOT / "docs" / "_sphinx"))
from reference import FILES, packages, settings_page, write_reference

pytestmark = pytest.mark.seconds


class Size(Enum):
    """A closed set, as some settings are."""

    SMALL = "small"


class Wine(Strict):
    """A bottle."""

    year: int = Field(ge=1900, description="of the | harvest")
    color: Literal["red", "white"] = "red"
    grapes: list[str] = []
    shelf: dict[str, float] | None = None
    size: Size = Size.SMALL


def test_a_page_of_settings_has_a_line_for_each_key_with_type_default_and_meaning():
    page = settings_page("wines", Wine)
    assert "`params/wines/`" in page
    assert "A bottle." in page
    assert "| `year` | integer >= 1900 | required | of the \\| harvest |" in page
    assert "| `color` | `red`, `white` | `red` |  |" in page
    assert "| `grapes` | list of string | `[]` |  |" in page
    assert "| `shelf` | mapping to number or null | `None` |  |" in page
    assert "One of `small`." in page


def test_every_kind_of_parameter_file_and_every_command_has_its_place(tmp_path):
    write_reference(tmp_path)
    page = (tmp_path / "commands.md").read_text()
    for command in (
        "recap caption",
        "recap data fetch",
        "recap report make",
        "recap import-checkpoint",
    ):
        assert f"# {command}\n" in page
    assert {path.stem for path in (tmp_path / "settings").iterdir()} == set(FILES)
    assert {path.stem for path in (tmp_path / "api").iterdir()} == set(packages())
    assert "beam" in (tmp_path / "settings" / "recipes.md").read_text()
