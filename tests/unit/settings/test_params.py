import shutil
from pathlib import Path

import pytest

from helpers.refusals import refused
from recap.core.errors import ConfigError, UnknownName
from recap.plan.run_plan import RunPlan
from recap.settings import SECTIONS, Profile
from recap.settings.params import load_named, load_profile, read_mapping, validate

PARAMS = Path(__file__).resolve().parents[2] / "workflow" / "params"
BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcdef", "bcdefg", strict=True)
)


@pytest.fixture
def params(tmp_path):
    """Those of the tiny workflow in place of the shipped ones."""
    return Path(shutil.copytree(PARAMS, tmp_path / "params"))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a: 1\nb: 2\na: 3\n", " line 3: the key 'a' is duplicated, in lines 1 and 3; remove one of them"),
        ("x:\n  - {b: 1}\n  - b: 1\n    b: 2\n", " line 4: the key 'b' is duplicated, in lines 3 and 4; remove"),
        (b"caf\xe9: 1\n", ": is no UTF-8 (byte 3); save it as UTF-8"),
        ("a: 2001-13-45", " line 1: '2001-13-45' is no value (month must be in 1..12)"),
        ("a: !!bool x", " line 1: 'x' is no value"),
        ("a: 1" + "0" * 5000, " line 1: '1000000"),
        ("a: " + "[" * 3000 + "]" * 3000, ": its values are nested too deep; write it with fewer levels"),
        (BOMB, " line 1: expands to more than 100,000 values; write less"),
        ("a: &a [*a]", " line 1: expands to more than 100,000 values; write less"),
        ("a: [1, 2", " line 1: not valid YAML: "),
        ("a: b: c", " line 1: not valid YAML: mapping values are not allowed here"),
        ("\0", ": not valid YAML: unacceptable character"),
        ("[1]", ": expected keys and values at the top of the file"),
    ],
)
def test_yaml_that_is_refused(tmp_path, content, sentence):
    path = tmp_path / "x.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ConfigError) as caught:
        read_mapping(path)
    assert str(caught.value).startswith(f"{path}{sentence}")
    assert "\n" not in str(caught.value)


def test_folders_and_names_that_are_no_files(tmp_path, params):
    with refused(ConfigError, tmp_path, "Is a directory"):
        read_mapping(tmp_path)
    with refused(ConfigError, "File name too long"):
        read_mapping(tmp_path / ("x" * 300))
    for name in ("x" * 300, "../models/transformer", "./photos", "a\0"):
        with refused(UnknownName, "params: "):
            load_named(params, "recipes", name)


def test_aliases_and_merges_are_read(tmp_path):
    (tmp_path / "x.yaml").write_text("a: &a {b: 1, c: 2}\nd: *a\ne:\n  <<: *a\n  c: 3\n")
    assert read_mapping(tmp_path / "x.yaml") == {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 2}, "e": {"b": 1, "c": 3}}


PROFILE = {"name": "demo", "tables": ["demo"], "seeds": [1]}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"seeds": ["eleven"]}, "seeds.0: must be a whole number (got 'eleven')"),
        ({"seeds": [True]}, "seeds.0: must be a whole number (got True)"),
        ({"seeds": [1.5]}, "seeds.0: must be a whole number (got 1.5)"),
        ({"seeds": []}, "seeds: has 0 entries, and needs 1 or more (got [])"),
        ({"seeds": 3}, "seeds: must be a list (got 3)"),
        ({"seeds": [1, 1]}, "seeds: a seed is duplicated"),
        ({"name": "A B"}, "name: may hold small letters, digits and underscores only (got 'A B')"),
        ({"name": 5}, "name: must be a text (got 5)"),
        ({"execution": {"threads": 0}}, "execution.threads: must be above 0 (got 0)"),
        ({"fetch": "maybe"}, "fetch: must be true or false (got 'maybe')"),
        ({"execution": {"device": "gpu"}}, "execution.device: there is no 'gpu'; did you mean 'cpu'?"),
        ({"seedz": [1]}, "unknown key 'seedz'; did you mean 'seeds'?"),
    ],
)
def test_wrong_values_are_said_in_plain_words(change, sentence):
    with pytest.raises(ConfigError) as caught:
        load_profile({**PROFILE, **change}, "profile demo")
    assert str(caught.value) == f"profile demo: {sentence}"


GRID = {"kind": "grid", "backbone": "resnet18", "weights": "random"}


@pytest.mark.parametrize(
    ("section", "values", "sentence"),
    [
        ("recipes", {"xe": 5}, "xe: must be keys with values (got 5)"),
        ("recipes", {"xe": {"epochs": 1, "learning_rate": "a"}}, "xe.learning_rate: must be a number (got 'a')"),
        (
            "recipes",
            {"xe": {"epochs": 1, "schedule": {"kind": "table", "table": {"x": 1}}}},
            "xe.schedule.table.x: ",
        ),
        (
            "recipes",
            {"xe": {"epochs": 1, "learning_rate": 1, "schedule": {"kind": "constant", "warmupp": 1}}},
            "unknown key 'xe.schedule.warmupp'; did you mean 'warmup'?",
        ),
        ("models", {"kind": "gated"}, "unknown kind 'gated'; known are: "),
        (
            "datasets",
            {"kind": "scene"},
            "unknown kind 'scene'; did you mean 'scenes'? (if it is one of your own, name ",
        ),
        ("datasets", 5, "must be keys with values (got 5)"),
        ("datasets", {"kind": "scenes", "size": 3}, "size: must be at least 32 (got 3)"),
        ("models", {"kind": "xlan", "encoder_layers": 2**63 - 1}, "encoder_layers: must be at most 100 (got 92233720"),
        ("models", {"kind": "transformer", "d_model": 10**9}, "d_model: must be at most 16384 (got 1000000000)"),
        ("features", GRID | {"image_size": 10**6}, "image_size: must be at most 4096 (got 1000000)"),
        ("datasets", {"kind": "scenes", 5: 1}, "5: a key must be a text; quote it (got 5)"),
    ],
)
def test_no_sentence_of_pydantic_is_left(section, values, sentence):
    with pytest.raises(ConfigError) as caught:
        validate(SECTIONS[section], values, "x.yaml")
    assert str(caught.value).startswith(f"x.yaml: {sentence}")
    assert "Input" not in str(caught.value)


ROW = {"id": "a", "label": "A", "dataset": "d", "features": "f", "model": "m", "recipe": "r"}
TABLE = {"title": "T", "columns": ["CIDEr"], "baseline": "a", "rows": [ROW]}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"baseline": "b"}, "t.yaml: baseline 'b' is no row id; known are: a"),
        ({"rows": [ROW, ROW]}, "t.yaml: two rows have the id 'a'; give each a different id"),
        ({"columns": ["CIDer"]}, "t.yaml: columns.0: there is no 'CIDer'; did you mean 'CIDEr'?"),
    ],
)
def test_a_wrong_table_is_not_printed(change, sentence):
    with pytest.raises(ConfigError) as caught:
        validate(SECTIONS["tables"], {**TABLE, **change}, "t.yaml")
    assert str(caught.value) == sentence


def test_a_base_is_a_name(params):
    (params / "models" / "x.yaml").write_text("base: 5\n")
    with refused(ConfigError, "x.yaml", "base", "5"):
        load_named(params, "models", "x")


def test_who_asks_for_a_missing_file_is_said(params):
    profile = Profile(**read_mapping(params / "tiny.yaml"))
    table = params / "tables" / f"{profile.tables[0]}.yaml"
    first = RunPlan(profile, params).tables[profile.tables[0]].rows[0]
    table.write_text(table.read_text().replace(f"model: {first.model}", "model: nobody"))
    asked = f"asked for by row {first.id!r} of table {profile.tables[0]!r}"
    with refused(UnknownName, "'nobody'", "models", asked):
        RunPlan(profile, params)
    with refused(UnknownName, "nothing", "tables", "profile 'tiny'"):
        RunPlan(profile.model_copy(update={"tables": ["nothing"]}), params)
