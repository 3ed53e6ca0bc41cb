"""The reference is made of the settings and commands themselves, and diagrams of pages are drawn without a network."""

import sys
from enum import Enum
from typing import Literal
from xml.etree import ElementTree

import pytest
from pydantic import Field

from helpers.tiny_workspace import ROOT
from recap.settings.base import Strict

sys.path.insert(0, str(ROOT / "docs" / "_sphinx"))
from diagrams import edges, picture  # noqa: E402
from reference import FILES, api_page, packages, settings_page, write_reference  # noqa: E402

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


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A folder with all generated pages."""
    folder = tmp_path_factory.mktemp("reference")
    write_reference(folder)
    return folder


def test_a_page_of_settings_has_a_line_for_each_key_with_type_default_and_meaning():
    page = settings_page("wines", Wine)
    assert "`params/wines/`" in page
    assert "A bottle." in page
    assert "| `year` | integer >= 1900 | required | of the \\| harvest |" in page
    assert "| `color` | `red`, `white` | `red` |  |" in page
    assert "| `grapes` | list of string | `[]` |  |" in page
    assert "| `shelf` | mapping to number or null | `None` |  |" in page
    assert "One of `small`." in page


def test_every_kind_of_parameter_file_and_every_command_has_its_place(reference):
    page = (reference / "commands.md").read_text()
    for command in ("recap caption", "recap data fetch", "recap report make", "recap import-checkpoint"):
        assert f"# {command}\n" in page
    assert {path.stem for path in (reference / "settings").iterdir()} == set(FILES)
    assert {path.stem for path in (reference / "api").iterdir()} == set(packages())
    assert "beam" in (reference / "settings" / "recipes.md").read_text()


def test_a_page_that_is_the_same_keeps_its_time_and_one_that_is_gone_is_removed(reference):
    before = {path: path.stat().st_mtime_ns for path in reference.rglob("*.md")}
    (reference / "settings" / "wines.md").write_text("old")
    write_reference(reference)
    assert {path: path.stat().st_mtime_ns for path in reference.rglob("*.md")} == before


def test_each_package_has_a_page_with_its_modules():
    found = packages()
    assert "cli" not in found
    assert "recap.decoding.beam" in found["decoding"]
    assert ".. automodule:: recap.decoding.beam" in api_page("decoding", found["decoding"])


def test_a_flowchart_is_drawn_with_a_box_for_each_name_and_a_line_for_each_arrow():
    text = "flowchart TB\n    top --> left & right\n    left --> below\n    right --> below\n"
    assert edges(text) == [("top", "left"), ("top", "right"), ("left", "below"), ("right", "below")]
    drawn = ElementTree.fromstring(picture(f"{text}    top --> below\n"))  # the last arrow is implied by others
    name = "{http://www.w3.org/2000/svg}"
    assert sorted(each.text for each in drawn.iter(f"{name}text")) == ["below", "left", "right", "top"]
    assert len(list(drawn.iter(f"{name}path"))) == 4
    assert not any("http" in value for each in drawn.iter() for key, value in each.attrib.items())
    place = {each.text: float(each.get("y")) for each in drawn.iter(f"{name}text")}
    assert place["top"] < place["left"] == place["right"] < place["below"]


def test_a_diagram_of_another_form_is_refused():
    with pytest.raises(ValueError, match="a --- b"):
        edges("flowchart TB\n    a --- b\n")
