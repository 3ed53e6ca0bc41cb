"""Figures of VisualGPT's gates: scores of words, parts of speech, and pictures of the asked size."""

import csv
import random

import pytest
import torch
from PIL import Image

from helpers.refusals import refused
from recap.core.errors import ConfigError
from recap.models.images import Images, InputSpec
from recap.models.registry import build_model
from recap.papers.visualgpt import gates_figure as gates
from recap.papers.visualgpt.figure_settings import GatesFigure
from recap.papers.visualgpt.figures import visual_gates
from recap.papers.visualgpt.gates_figure import CaptionGates, VisualScores, part_scores, write_gates
from recap.papers.visualgpt.settings import VisualGptModel

pytestmark = pytest.mark.seconds

WORDS = ["a", "dog", "and", "two", "<b>cats</b>", "run", "on", "$5", "grass", "=1+1"]


@pytest.fixture
def captions():
    """Captions whose word number n has the visual gate 0.05 n in the last of three layers."""
    numbers = random.Random(0)

    def caption(image):
        words = [*WORDS, WORDS[image % 5]]
        last = [0.05 * WORDS.index(word) for word in words]
        visual = [[numbers.random(), numbers.random(), gate] for gate in last]
        return CaptionGates(image, words, visual, [[1 - value for value in layers] for layers in visual])

    return [caption(image) for image in range(8)]


def write(captions, tmp_path, **changes):
    Image.new("RGB", (40, 20), (0, 200, 0)).save(tmp_path / "a.png")
    settings = {
        "captions": captions,
        "shown": captions[:3],
        "files": {caption.image_id: "a.png" for caption in captions},
        "image_roots": [tmp_path],
        "heading": "Gates of VisualGPT $x$  |  Scale of this run: small",
        "out": {name: tmp_path / "out" / f"t1_{name}" for name in GatesFigure.files},
    }
    write_gates(**{**settings, **changes})
    return tmp_path / "out"


def test_scores_are_normalized_over_all_captions(captions, tmp_path):
    out = write(captions, tmp_path)
    rows = list(csv.DictReader((out / "t1_gates.csv").open()))
    scores = {row["word"]: float(row["visual_score"]) for row in rows}
    assert scores == pytest.approx({(f"'{w}" if w[0] == "=" else w): n / 9 for n, w in enumerate(WORDS)})
    assert [row["word"] for row in rows][-1] == "a"
    assert {row["occurrences"] for row in rows} == {"8", "9", "10"}


def test_the_figures_have_a_line_for_each_caption(captions, tmp_path):
    out = write(captions, tmp_path)
    with Image.open(out / "t1_words.png") as sheet, Image.open(out / "t1_gates.png") as figure:
        three, size = sheet.size, figure.size
    assert size[0] > 1500
    write(captions, tmp_path, shown=captions[:5])
    with Image.open(out / "t1_words.png") as sheet:
        assert sheet.size == (three[0], three[1] + 2 * 200)


def test_parts_of_speech_are_those_of_the_tagger_or_none(captions, monkeypatch):
    scores = VisualScores.of(captions)
    monkeypatch.setattr(gates, "tagger", lambda: None)
    assert part_scores(captions, scores) is None
    tags = {word: "NN" if word in ("dog", "grass") else "DT" for word in WORDS}
    monkeypatch.setattr(gates, "tagger", lambda: ("mine", lambda lists: [[tags[w] for w in words] for words in lists]))
    found = part_scores(captions, scores)
    assert list(found) == ["determiners", "nouns"]
    assert found["nouns"] == pytest.approx((8 * 8 / 9 + 10 * 1 / 9) / 18)


def test_gates_of_a_model_are_one_number_per_layer_and_token():
    torch.manual_seed(0)
    config = VisualGptModel.example()
    model = build_model(config, InputSpec.of(5, 9)).eval()
    images = Images.of(torch.randn(2, 4, 5), torch.ones(2, 4, dtype=torch.bool))
    with torch.no_grad():
        memory = model.encode(images)
    visual, language = visual_gates(model, torch.tensor([[[1, 5, 6]], [[1, 7, 0]]]), memory)
    assert visual.shape == language.shape == (config.decoder_layers, 2, 1, 3)
    assert bool(((visual >= 0) & (visual <= 1)).all())
    plain = build_model(config.model_copy(update={"fusion": "plain"}), InputSpec.of(5, 9)).eval()
    with refused(ConfigError, "VisualGpt", "visual_gpt", "fusion srau"):
        visual_gates(plain, torch.tensor([[[1]], [[1]]]), memory)
