"""A plug-in that is not named or not there is one sentence.

Tests/workflow runs a paper and a model of a user's own.
"""

import pytest

from helpers.refusals import refused
from helpers.tiny_workspace import ROOT
from recap.core.documents import read_mapping
from recap.core.errors import ConfigError
from recap.settings import Model
from recap.settings.kinds import VARIABLE, load_plugins
from recap.settings.params import validate


def test_a_kind_whose_plugin_is_not_named_is_unknown():
    with refused(ConfigError, "toy.yaml", "unknown kind 'toy_fusion'"):
        validate(
            Model,
            read_mapping(ROOT / "tests/toy_paper/params/toy/models/toy_fusion.yaml"),
            "toy.yaml",
        )


@pytest.mark.parametrize("name", ["toy_fusionn", "nowhere.at_all"])
def test_a_plugin_that_cannot_be_imported_is_named(name, monkeypatch):
    monkeypatch.setenv(VARIABLE, name)
    with refused(ConfigError, "RECAP_PLUGINS", repr(name)):
        load_plugins()
