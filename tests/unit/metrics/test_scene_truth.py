"""Truth of captions about the scenes:
each sentence of the grammar is true of its scene, none that says another is."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.plans import edited, planned
from helpers.refusals import refused
from recap.core.errors import ConfigError, MetricError
from recap.core.hashing import generator
from recap.data.corpus import Corpus, build_corpus
from recap.data.datasets.scene_captions import (
    BACKGROUNDS,
    COLOURS,
    SHAPES,
    SPOTS,
    Statement,
    Things,
    describe,
    is_true,
    parse,
    read_truth,
    relation_is_true,
)
from recap.data.datasets.scenes import invent_scene
from recap.metrics.scores import evaluate_captions
from recap.settings import DecodingSettings
from recap.settings.metrics import score_info

pytestmark = pytest.mark.seconds

SETTINGS = {"split": "test", "split_hash": "none", "decoding": DecodingSettings()}
TWO = Statement(
    (
        Things(2, "small", "red", "striped", "circle"),
        Things(1, "large", "orange", "plain", "cross"),
    ),
    "left",
    "white",
)
ONE = Statement((Things(3, "large", "blue", "dotted", "heart"),), "row", "black")
TWINS = Statement((TWO.groups[0], TWO.groups[0]), "above", "white")
CORNER = Statement((Things(1, "small", "orange", "plain", "star"),), "top left", "checkered")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    out = tmp_path_factory.mktemp("scenes")
    build_corpus(
        name="scenes",
        spec={"kind": "scenes", "train": 60, "val": 5, "test": 40},
        inputs=out,
        out=out,
    )
    return out / "corpus.parquet"


def as_statement(scene):
    groups = tuple(Things(g.count, g.size, g.colour, g.texture, g.shape) for g in scene.groups)
    return Statement(groups, scene.arrangement, scene.background)


def test_all_references_are_true_of_their_own_picture_and_of_no_other(corpus):
    scenes, captions = read_truth(corpus.with_name("boxes.json")), Corpus.read(corpus).captions()
    assert scenes.keys() == captions.keys()
    for image_id, texts in captions.items():
        assert all(is_true(text, scenes[image_id]) for text in texts)
        assert not any(
            is_true(text, scenes[image_id]) for text in captions[(image_id + 1) % len(captions)]
        )


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 10**9), most=st.integers(1, 5))
def test_every_sentence_of_the_grammar_is_true_of_its_scene(seed, most):
    scene = invent_scene(generator(seed, "scene"), most)
    assert all(
        is_true(text, as_statement(scene))
        for text in describe(scene, random=generator(seed, "captions"))
    )


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**9))
def test_a_sentence_is_false_where_any_fact_that_it_says_is_another(seed):
    """Each fact of the scene is changed in turn: what the caption says of it no longer holds."""
    scene = invent_scene(generator(seed, "scene"), 5)
    true = as_statement(scene)
    for text in describe(scene, random=generator(seed, "captions")):
        statement = parse(text)
        for number, group in enumerate(statement.groups):
            others = {
                "count": [n for n in range(1, 6) if n != group.count],
                "colour": [name for name in COLOURS if name != group.colour],
                "shape": [name for name in SHAPES if name != group.shape],
                "texture": [
                    name for name in ("plain", "striped", "dotted") if name != group.texture
                ],
                "size": [name for name in ("small", "large") if group.size and name != group.size],
            }
            for key, values in others.items():
                for value in values:
                    groups = list(true.groups)
                    groups[number] = replace(groups[number], **{key: value})
                    assert not is_true(text, replace(true, groups=tuple(groups))), (
                        text,
                        key,
                        value,
                    )
        places = {*SPOTS, "row", "column", "scattered", "left", "above"} - {true.arrangement}
        assert not any(is_true(text, replace(true, arrangement=place)) for place in places)
        if statement.background:
            grounds = set(BACKGROUNDS) - {true.background}
            assert not any(is_true(text, replace(true, background=ground)) for ground in grounds)


@pytest.mark.parametrize(
    ("caption", "scene", "expected"),
    [
        (
            "two small red striped circles to the left of a large orange cross on a white "
            "background",
            TWO,
            True,
        ),
        ("a pair of red discs with white stripes left of a big orange plus sign", TWO, True),
        (
            "there are two red striped circles left of an orange cross in front of a white wall",
            TWO,
            True,
        ),
        ("an orange cross to the left of two red striped circles", TWO, False),
        ("two red striped circles to the left of a orange cross", TWO, False),
        ("there is two red striped circles left of an orange cross", TWO, False),
        ("two red striped circles side by side", TWO, False),
        ("a row of three big blue hearts with white dots on a dark background", ONE, True),
        ("three blue dotted hearts side by side", ONE, False),
        (
            "three blue dotted hearts in a row on a black background on a black background",
            ONE,
            False,
        ),
        ("in the upper left corner of the picture there is an orange star", CORNER, True),
        ("in the upper left corner there are an orange star", CORNER, False),
        ("", CORNER, False),
    ],
)
def test_captions_of_known_scenes(caption, scene, expected):
    assert is_true(caption, scene) is expected


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**9), most=st.integers(1, 5))
def test_every_sentence_of_the_grammar_is_right_and_its_mirror_is_not(seed, most):
    scene = invent_scene(generator(seed, "scene"), most)
    drawn = as_statement(scene)
    groups, mirrored = drawn.groups, replace(drawn, groups=drawn.groups[::-1])
    alike = len(groups) == 2 and (groups[0].colour, groups[0].shape) == (
        groups[1].colour,
        groups[1].shape,
    )
    for text in describe(scene, random=generator(seed, "captions")):
        assert relation_is_true(text, drawn) is not alike
        assert relation_is_true(text, mirrored) is (len(groups) == 1)


@pytest.mark.parametrize(
    ("caption", "scene", "expected"),
    [
        ("two red circles left of an orange cross", TWO, True),
        # numbers do not count
        ("three small red circles on the left and one purple cross on the right", TWO, True),
        # what is red, and what is a cross, is in its place
        ("a red star left of a blue cross", TWO, True),
        ("a blue star left of a green heart", TWO, False),  # nobody knows which is which
        ("two red circles on a white background", TWO, False),
        ("two red circles above two red circles", TWINS, False),
        ("two green stars side by side", ONE, True),  # says nothing of a relation
        ("a blue heart above a blue heart", ONE, False),
    ],
)
def test_relations_of_known_scenes(caption, scene, expected):
    assert relation_is_true(caption, scene) is expected


@pytest.mark.parametrize(
    ("metric", "version"), [("True captions", "scenes:1"), ("True relations", "relations:1")]
)
def test_the_metrics_score_images_and_corpus(corpus, tmp_path, no_java, metric, version):
    references = Corpus.read(corpus).captions("test")
    hypotheses = {image_id: texts[0] for image_id, texts in references.items()}
    wrong = sorted(hypotheses)[:10]
    hypotheses |= dict.fromkeys(wrong, "a dog runs")
    options = {"references": references, "hypotheses": hypotheses, "metrics": [metric], **SETTINGS}
    scores = evaluate_captions(**options, out=tmp_path / "scores", dataset=corpus.parent)
    assert scores.corpus[metric] == 0.75
    assert [i for i, value in scores.per_image[metric].items() if value == 0] == wrong
    signature = json.loads((tmp_path / "scores" / "metrics.json").read_text())["signature"]
    assert re.search(rf"\b{version}\b", signature) and score_info(metric).scale == 100
    with refused(MetricError, metric, "boxes.json"):
        evaluate_captions(**options, out=tmp_path / "other", dataset=tmp_path)


def test_a_recipe_with_this_metric_is_refused_for_other_data_sets(params):
    edited(params, "recipes/mine.yaml", base="photos", evaluation={"metrics": ["True captions"]})
    row = {
        "id": "t",
        "label": "T",
        "dataset": "flickr8k",
        "features": "mobilenetv2_grid",
        "model": "transformer",
    }
    rows = [{**row, "recipe": "mine"}]
    edited(
        params, "tables/mine.yaml", title="Mine", columns=["True captions"], baseline="t", rows=rows
    )
    with refused(ConfigError, "'True captions'", "boxes.json", "'flickr8k'"):
        planned(params, None, ["mine"])
