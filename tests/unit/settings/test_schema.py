"""The JSON schemas accept what the loader accepts."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from recap.settings import SECTIONS
from recap.settings.params import files, load_named, names, profiles, schemas, write_schemas

pytestmark = pytest.mark.seconds

ROOT = Path(__file__).resolve().parents[3]
PARAMS = [ROOT / "params", ROOT / "tests" / "workflow" / "params"]
FILES = [
    (params, section, name, path)
    for params in PARAMS
    for section in SECTIONS
    for name in names(params, section)
    for path in files(params, section, name)
]


def validator(name):
    return jsonschema.Draft202012Validator(json.loads(schemas()[f"{name}.schema.json"]))


def test_every_schema_is_written(tmp_path):
    written = {path.name: path.read_text() for path in write_schemas(tmp_path)}
    assert written == schemas() == {path.name: path.read_text() for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    ("params", "section", "name", "path"), FILES, ids=["-".join(path.with_suffix("").parts[-4:]) for *_, path in FILES]
)
def test_every_parameter_file_fits_its_schema_and_loads(params, section, name, path):
    def texts(value):
        # JSON has only text as keys; YAML's epoch tables have numbers.
        return {str(key): texts(item) for key, item in value.items()} if isinstance(value, dict) else value

    validator(section).validate(texts(yaml.safe_load(path.read_text())))
    load_named(params, section, name)


@pytest.mark.parametrize("path", profiles(PARAMS[0]), ids=lambda path: path.parent.name + path.stem)
def test_every_profile_fits_its_schema(path):
    validator("profile").validate(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize(
    "name, values",
    [
        ("recipes", {"base": "scenes", "xe": {"learning_rat": 0.1}}),
        ("models", {"kind": "transformer", "gate": "sigmoid"}),
        ("models", {"base": "zodiac", "heads": "many"}),
        ("profile", {"seedz": [1]}),
    ],
)
def test_the_schemas_refuse_what_the_loader_refuses(name, values):
    assert list(validator(name).iter_errors(values))
