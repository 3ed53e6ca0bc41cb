"""The state of a rehearsal in its folder."""

from collections import Counter
from contextlib import chdir

import pytest

from helpers.refusals import refused
from recap.core.errors import ConfigError, RecapError
from rehearsal.rehearse import STATE, open_folder


@pytest.mark.parametrize(
    "state", ["[]", "{", '{"paper": "xlan", "short": true, "port": 70000}', '{"by_hand": []}']
)
def test_a_damaged_state_of_a_rehearsal_is_one_sentence(tmp_path, state):
    (tmp_path / STATE).write_text(state)
    with refused(RecapError, tmp_path / STATE):
        open_folder(tmp_path, "xlan", True)


def test_a_rehearsal_goes_on_from_its_state(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state = open_folder(tmp_path / "new", "xlan", True)
    state.port, state.planned = 8000, Counter(train_xe=2)
    with chdir("new"):
        state.save()
    assert open_folder(tmp_path / "new", "xlan", True) == state
    with refused(ConfigError, "paper"):
        open_folder(tmp_path / "new", "acf", True)
