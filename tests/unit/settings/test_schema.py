"""The JSON schemas accept what the loader accepts."""

import json
from pathlib import Path

import jsonschema
import pytest

from recap.core.documents import read_mapping
from recap.settings import SECTIONS
from recap.settings.params import files, load_named, names, profiles, write_schemas

pytestmark = pytest.mark.seconds

ROOT = Path(__file__).resolve().parents[3]
PARAMS = [ROOT / "params", ROOT / "tests" / "workflow" / "params"]


@pytest.fixture(scope="module")
def validators(tmp_path_factory):
    """What checks the files of each section, by the schemas that are written for editors."""
    paths = write_schemas(tmp_path_factory.mktemp("schemas"))
    schemas = {path.name.partition(".")[0]: json.loads(path.read_text()) for path in paths}
    return {name: jsonschema.Draft202012Validator(schema) for name, schema in schemas.items()}


def with_text_keys(value):
    """JSON has only text as keys; YAML's epoch tables have numbers."""
    return (
        {str(key): with_text_keys(item) for key, item in value.items()}
        if isinstance(value, dict)
        else value
    )


@pytest.mark.parametrize("params", PARAMS, ids=["shipped", "tiny"])
@pytest.mark.parametrize("section", SECTIONS)
def test_every_parameter_file_fits_its_schema_and_loads(validators, params, section):
    every = names(params, section)
    for name in every:
        load_named(params, section, name)
    for path in {path for name in every for path in files(params, section, name)}:
        validators[section].validate(with_text_keys(read_mapping(path)))


def test_every_profile_fits_its_schema(validators):
    for path in profiles(PARAMS[0]):
        validators["profile"].validate(read_mapping(path))


@pytest.mark.parametrize(
    "name, values",
    [
        ("recipes", {"base": "scenes", "xe": {"learning_rat": 0.1}}),
        ("models", {"kind": "transformer", "gate": "sigmoid"}),
        ("models", {"base": "zodiac", "heads": "many"}),
        ("profile", {"seedz": [1]}),
    ],
)
def test_the_schemas_refuse_what_the_loader_refuses(validators, name, values):
    assert list(validators[name].iter_errors(values))
