"""Which tools a plan needs is found without loading them."""

import pytest

from helpers.plans import PARAMS
from recap.cli.doctor import plan_tools
from recap.data import parts_of_speech
from recap.plan.profiles import named_plan


def never(*_):
    raise AssertionError("a tagger was loaded")


@pytest.mark.parametrize("installed", [{"textblob"}, {"spacy", "en_core_web_sm"}, {"spacy"}, set()], ids=sorted)
def test_no_tagger_is_loaded_to_know_whether_one_is_installed(installed, monkeypatch):
    monkeypatch.setattr(parts_of_speech, "find_spec", lambda name: name if name in installed else None)
    complete = installed not in (set(), {"spacy"})
    for loader in ("_spacy", "_textblob"):
        monkeypatch.setattr(parts_of_speech, loader, never)
    (here,) = [each.here for each in plan_tools(named_plan(PARAMS, "demo")) if each.name == "tagger"]
    assert here == complete
