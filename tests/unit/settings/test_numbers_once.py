"""A number is written once: in the class of a model, or in the lowest file that differs from it."""

import copy
from functools import reduce

import pytest
from pydantic import ValidationError

from helpers.plans import PARAMS
from recap.core.documents import adapter
from recap.settings import SECTIONS
from recap.settings.params import base_files, flat, merged, names

FILES = [(section, name) for section in SECTIONS if section != "scales" for name in names(PARAMS, section)]
CHECKED = "expected_parameters"  # counted for each file that has it


def leaves(values, path=()):
    for key, value in values.items():
        yield from leaves(value, (*path, key)) if isinstance(value, dict) and value else [(*path, key)]


def loaded(section, layers):
    return adapter(SECTIONS[section]).validate_python(reduce(merged, layers))


def without(values, path):
    values = copy.deepcopy(values)
    del reduce(dict.__getitem__, path[:-1], values)[path[-1]]
    return values


def repeated(section, below, own):
    """Return the keys of a file that change nothing over the files below it."""
    whole = loaded(section, [*below, own])
    for path in leaves(own):
        try:
            if loaded(section, [*below, without(own, path)]) == whole:
                yield ".".join(map(str, path))
        except ValidationError:  # the key is needed
            continue


@pytest.mark.parametrize(("section", "name"), FILES)
def test_a_file_repeats_no_value_of_its_base_and_a_models_file_no_default(section, name):
    *below, (_, own) = base_files(PARAMS, section, name)
    inherited = flat(reduce(merged, (values for _, values in below), {}))
    found = set(repeated(section, [values for _, values in below], own)) - {CHECKED}
    assert [key for key in found if inherited.get(key, ...) == flat(own).get(key)] == []
    assert section != "models" or found == set()


def test_a_repeated_value_is_noticed():
    assert list(repeated("models", [], {"kind": "xlan", "alpha": 1.3, "d_model": 8})) == ["alpha"]
    below = {"xe": {"epochs": 2, "schedule": {"kind": "step", "learning_rate": 0.1, "factor": 0.5, "step_size": 1}}}
    change = {"xe": {"schedule": {"kind": "constant", "learning_rate": 0.1}}}
    assert list(repeated("recipes", [below], change)) == []
    assert list(repeated("recipes", [below], {"xe": {"epochs": 2}})) == ["xe.epochs"]
