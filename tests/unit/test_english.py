"""The linter of prose finds banned phrases and long sentences in pages and messages, and nothing in code."""

import pytest
import yaml
from workflow.english import RULES, banned, check, sentences, strings

WORDS = yaml.safe_load(RULES.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One. Two? Three!", ["One.", "Two?", "Three!"]),
        ("A line\ngoes on. Next", ["A line goes on.", "Next"]),
        ("# Heading\n\nProse.\n\n| a | table. |\n\n    code. Here\n", ["Prose."]),
        ("- one item\n- another, that\n  goes on", ["one item", "another, that goes on"]),
        ("```sh\nrun this. Now\n```\nAfter.", ["After."]),
        ("Use `a b c. D` here.", ["Use Code here."]),
        ("See [the page](a/long.md).", ["See [the page]."]),
        ("Version 2.13 of e.g. torch.", ["Version 2.13 of e.g. torch."]),
    ],
)
def test_prose_is_parted_into_sentences_and_all_else_left_out(text, found):
    assert list(sentences(text)) == found


def test_a_phrase_is_found_across_a_line_break_with_what_to_write():
    assert list(banned("It is MADE\n again.", {"made\\s+again": "rerun"})) == ["'MADE again': write rerun"]


@pytest.mark.parametrize("phrase", ["learnt", "colour", "standardised", "1 tables", "by heart", "is made again"])
def test_a_banned_phrase_of_the_rules_is_found(phrase):
    assert list(banned(f"This {phrase} here.", WORDS["banned"]))


def test_strings_of_a_module_are_its_docstrings_and_messages_without_names_and_code():
    source = '"""Say it."""\nname = "colour"\n\n\ndef f():\n    raise ValueError(f"no such `{name} x` in the file")\n'
    found = list(strings(source))
    assert "Say it." in found
    assert "colour" not in found
    assert any("in the file" in each for each in found)


@pytest.fixture
def clone(tmp_path):
    """A clone with one page, one module and the pages that every clone has."""
    for name in ("docs/guides", "docs/results", "src/recap/core", "workflow"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("README.md", "CONTRIBUTING.md"):
        (tmp_path / name).write_text("Short.\n")
    return tmp_path


RULES_OF_TEST = {"banned": {"\\bcolour\\b": "color"}, "words": 5, "longer": {}, "data": ["src/recap/core/data"]}


def test_pages_and_modules_are_checked_and_the_file_is_named(clone):
    (clone / "docs/guides/a.md").write_text("The colour. One two three four five six seven.\n")
    (clone / "src/recap/core/a.py").write_text('"""The colour of it."""\n')
    (clone / "src/recap/core/data.py").write_text('WORDS = "colour of it"\n')
    found, long = check(clone, RULES_OF_TEST)
    assert found == ["docs/guides/a.md: 'colour': write color", "src/recap/core/a.py: 'colour': write color"]
    assert long["docs/guides"] == ["docs/guides/a.md: One two three four five six seven."]
    assert not any(long[folder] for folder in long if folder != "docs/guides")


def test_a_page_that_a_command_wrote_is_not_checked(clone):
    (clone / "docs/results/a.md").write_text("# A\n\nMade by `recap report docs`. The colour.\n")
    assert check(clone, RULES_OF_TEST)[0] == []
