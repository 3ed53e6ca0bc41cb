import shutil
from pathlib import Path

import pytest

from helpers.refusals import refused
from recap.core.errors import ConfigError, UnknownName
from recap.settings import SECTIONS, Profile
from recap.settings.params import load_named, read_mapping, validate

PARAMS = Path(__file__).resolve().parents[2] / "workflow" / "params"


@pytest.fixture
def params(tmp_path):
    """Those of the tiny workflow in place of the shipped ones."""
    return Path(shutil.copytree(PARAMS, tmp_path / "params"))


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("a: 1\nb: 2\na: 3\n", ["line 3", "'a'"]),
        ("x:\n  - {b: 1}\n  - b: 1\n    b: 2\n", ["line 4", "'b'"]),
        (b"caf\xe9: 1\n", ["UTF-8"]),
        ("a: 2001-13-45", ["month"]),
        ("a: 1" + "0" * 5000, ["4300"]),
        ("a: " + "[" * 3000 + "]" * 3000, ["deep"]),
        ("a: [1, 2", ["line 1"]),
        ("\0", []),
        ("[1]", []),
    ],
)
def test_yaml_that_is_refused(tmp_path, content, named):
    path = tmp_path / "x.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with refused(ConfigError, path, *named):
        read_mapping(path)


def test_folders_and_names_that_are_no_files(tmp_path, params):
    with refused(ConfigError, tmp_path, "Is a directory"):
        read_mapping(tmp_path)
    with refused(ConfigError, "File name too long"):
        read_mapping(tmp_path / ("x" * 300))
    for name in ("x" * 300, "../models/transformer", "./photos", "a\0"):
        with refused(UnknownName, "params: "):
            load_named(params, "recipes", name)


PROFILE = {"name": "demo", "tables": ["demo"], "seeds": [1]}
GRID = {"kind": "grid", "backbone": "resnet18", "weights": "random"}
BOXES = {**GRID, "weights": "boxes", "pretraining": {}}
REGIONS = {"kind": "regions", "detector": "faster_rcnn_r50_c4", "weights": "random"}
COCO = {
    "kind": "coco",
    "annotations": ["a.json"],
    "images": ["i"],
    "val_list": "v",
    "test_list": "t",
}
STAGE = {"epochs": 1, "learning_rate": 1}
ROW = {"id": "a", "label": "A", "dataset": "d", "features": "f", "model": "m", "recipe": "r"}
TABLE = {"title": "T", "columns": ["CIDEr"], "baseline": "a", "rows": [ROW]}


@pytest.mark.parametrize(
    ("section", "right", "change", "named"),
    [
        ("profile", PROFILE, {"seeds": [True]}, ["seeds.0"]),
        ("profile", PROFILE, {"execution": {"device": "gpu"}}, ["execution.device", "'cpu'"]),
        ("profile", PROFILE, {"seeds": 1}, ["[1]", "'seeds=[1]'"]),
        ("profile", PROFILE, {"tables": "a,b"}, ["'tables=[a,b]'"]),
        ("profile", PROFILE, {"seedz": [1]}, ["'seedz'", "'seeds'"]),
        ("recipes", {"xe": STAGE}, {"xe": {"epochs": 1}}, ["xe", "`learning_rate`", "`schedule`"]),
        (
            "datasets",
            {"kind": "scenes"},
            {"kind": "scene"},
            ["'scene'", "'scenes'", "RECAP_PLUGINS"],
        ),
        ("datasets", COCO, {"test_list": None}, ["`val_list`", "`test_list`"]),
        ("models", {"kind": "xlan"}, {"encoder_layers": 2**63 - 1}, ["encoder_layers"]),
        ("models", {"kind": "transformer"}, {"d_model": 9, "heads": 2}, ["d_model 9", "2 heads"]),
        ("features", BOXES, {"weights": "random"}, ["`pretraining`", "weights"]),
        ("features", REGIONS, {"vectors": "fc1"}, ["`vectors`", "grid_feats_x101_c5"]),
        ("tables", TABLE, {"baseline": "b"}, ["baseline", "'b'", "known are: a"]),
        ("tables", TABLE, {"rows": [ROW, ROW]}, ["'a'"]),
        (
            "tables",
            TABLE,
            {"rows": [ROW | {"printed": {"CIDer": 1}}]},
            ["rows.0.printed.CIDer", "'CIDEr'"],
        ),
        ("tables", TABLE, {"rows": [ROW | {"doubt": {"CIDEr": "x"}}]}, ["doubt", "'CIDEr'"]),
    ],
)
def test_a_wrong_setting_is_refused_with_its_file_and_key(section, right, change, named):
    kind = Profile if section == "profile" else SECTIONS[section]
    assert validate(kind, right, "x.yaml")
    with refused(ConfigError, "x.yaml", *named):
        validate(kind, {**right, **change}, "x.yaml")
