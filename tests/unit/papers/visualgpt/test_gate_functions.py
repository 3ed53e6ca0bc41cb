"""VisualGPT's Figure 4 is drawn with the layer of the model, and has the values of Eq. 5 and 6."""

import math

import pytest
import torch
from PIL import Image

from helpers.refusals import refused
from recap.core.errors import ConfigError
from recap.evaluation.figures import DrawnModels, write_figure
from recap.papers.visualgpt.figures import gate_values
from recap.papers.visualgpt.model import SelfResurrecting
from recap.papers.visualgpt.settings import GateFunctionsFigure
from recap.settings.figures import AttentionFigure

pytestmark = pytest.mark.seconds


def test_the_gates_are_those_of_equations_5_and_6():
    visual, language = gate_values(torch.tensor([-3.0, -1.0, 0.0, 1.0, 3.0]), tau=0.2, normalized=False)
    low, high = (1 / (1 + math.exp(-x)) for x in (1.0, 3.0))
    assert visual.tolist() == pytest.approx([0, 1 - low, 0.5, low, high])
    assert language.tolist() == pytest.approx([high, low, 0.5, 1 - low, 0])
    visual, language = gate_values(torch.tensor([-3.0, -1.0, 3.0]), tau=0.2, normalized=True)
    assert visual.tolist() == pytest.approx([0, 1 - low, 1]) and (visual + language).tolist() == pytest.approx(
        [1, 1, 1]
    )


def test_a_change_of_the_layer_changes_the_figure(monkeypatch, tmp_path):
    drawn = []
    for name, pair in (("as it is", SelfResurrecting.pair), ("other", lambda gate, state, seen, level: (state, state))):
        monkeypatch.setattr(SelfResurrecting, "pair", pair)
        models = DrawnModels(
            {}, corpus=tmp_path / "c", vocabulary=tmp_path / "v", features=[], image_roots=[], heading=""
        )
        write_figure(GateFunctionsFigure(kind="gate_functions"), models, tmp_path / name)
        with Image.open(tmp_path / f"{name}_gate_functions.png") as picture:
            assert picture.width >= 1200
            drawn.append(picture.convert("RGB").tobytes())
    assert drawn[0] != drawn[1]


def test_a_figure_of_models_without_models_is_refused(tmp_path):
    models = DrawnModels({}, corpus=tmp_path, vocabulary=tmp_path, features=[], image_roots=[tmp_path], heading="")
    with refused(ConfigError, "attention", "--runs"):
        write_figure(AttentionFigure(kind="attention"), models, tmp_path / "mine")
