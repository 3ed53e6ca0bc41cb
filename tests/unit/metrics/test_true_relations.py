"""Relations that captions of the scenes state: right about which group lies left of or above which, or not."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.refusals import refused
from recap.core.errors import MetricError
from recap.core.hashing import generator
from recap.data.corpus import Corpus, build_corpus
from recap.data.datasets.scene_captions import Statement, Things, describe, relation_is_true
from recap.data.datasets.scenes import invent_scene
from recap.metrics.scores import evaluate_captions
from recap.settings import DecodingSettings
from recap.settings.metrics import score_info

SETTINGS = {"split": "test", "split_hash": "none", "decoding": DecodingSettings()}
CIRCLES = Things(2, "small", "red", "striped", "circle")
CROSS = Things(1, "large", "orange", "plain", "cross")
TWO = Statement((CIRCLES, CROSS), "left", "white")
TWINS = Statement((CIRCLES, CIRCLES), "above", "white")
ONE = Statement((Things(3, "large", "blue", "dotted", "heart"),), "row", "black")


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**9), most=st.integers(1, 5))
def test_every_sentence_of_the_grammar_is_right_and_its_mirror_is_not(seed, most):
    scene = invent_scene(generator(seed, "scene"), most)
    groups = tuple(Things(g.count, g.size, g.colour, g.texture, g.shape) for g in scene.groups)
    drawn = Statement(groups, scene.arrangement, scene.background)
    mirrored = Statement(groups[::-1], scene.arrangement, scene.background)
    alike = len(groups) == 2 and (groups[0].colour, groups[0].shape) == (groups[1].colour, groups[1].shape)
    for text in describe(scene, random=generator(seed, "captions")):
        assert relation_is_true(text, drawn) is not alike
        assert relation_is_true(text, mirrored) is (len(groups) == 1)


@pytest.mark.parametrize(
    ("caption", "scene", "expected"),
    [
        ("two red circles left of an orange cross", TWO, True),
        ("three small red circles on the left and one purple cross on the right", TWO, True),  # numbers do not count
        ("a red star left of a blue cross", TWO, True),  # what is red, and what is a cross, is in its place
        ("a blue star left of a green heart", TWO, False),  # nobody knows which is which
        ("two red circles on a white background", TWO, False),
        ("two red circles side by side", TWO, False),
        ("two red circles above two red circles", TWINS, False),
        ("two green stars side by side", ONE, True),  # says nothing of a relation
        ("a blue heart above a blue heart", ONE, False),
        ("a dog runs", TWO, False),
    ],
)
def test_captions_of_known_scenes(caption, scene, expected):
    assert relation_is_true(caption, scene) is expected


def test_the_metric_scores_images_and_corpus(tmp_path, monkeypatch):
    build_corpus(name="s", spec={"kind": "scenes", "train": 5, "val": 1, "test": 40}, inputs=tmp_path, out=tmp_path)
    monkeypatch.setattr("recap.metrics.scores.java_executable", lambda: None)
    references = Corpus.read(tmp_path / "corpus.parquet").captions("test")
    hypotheses = {image_id: texts[0] for image_id, texts in references.items()}
    wrong = sorted(hypotheses)[:10]
    hypotheses |= dict.fromkeys(wrong, "a dog runs")
    options = {"references": references, "hypotheses": hypotheses, "metrics": ["True relations"], **SETTINGS}
    scores = evaluate_captions(**options, out=tmp_path / "scores", dataset=tmp_path)
    result = scores.per_image["True relations"]
    assert scores.corpus["True relations"] == sum(result.values()) / 40 == 0.75
    assert [image_id for image_id, value in result.items() if value == 0] == wrong
    signature = json.loads((tmp_path / "scores" / "metrics.json").read_text())["signature"]
    assert re.search(r"\brelations:1\b", signature)
    assert score_info("True relations").scale == 100
    with refused(MetricError, "True relations", "boxes.json"):
        evaluate_captions(**options, out=tmp_path / "other", dataset=None)
