"""Rows whose data, features, model and recipe do not go together,
refused before anything is trained."""

import pytest

from helpers.plans import edited, planned
from helpers.refusals import refused
from recap.core.errors import ConfigError

SCALES = ("paper", "photos", "scenes")


def with_visual_gpt(params, **changes):
    defaults = {"dataset": "coco_bpe", "features": "bottom_up_adaptive", "recipe": "visualgpt"}
    rows = [
        {
            "id": "three",
            "label": "3",
            "model": {"base": "visual_gpt_transformer", "decoder_layers": 3},
        },
        {"id": "twelve", "label": "12", "model": {"base": "visual_gpt", "tau": 0.1, **changes}},
    ]
    edited(
        params,
        "tables/v.yaml",
        title="t",
        columns=["CIDEr"],
        baseline="three",
        defaults=defaults,
        rows=rows,
    )
    return params


def test_a_scale_puts_a_language_model_in_the_place_of_gpt2_for_rows_that_are_pretrained(params):
    result = {}
    for scale in SCALES:
        plan = planned(with_visual_gpt(params), scale, ["v"])
        models = [plan.settings.get("models", row.model) for row in plan.tables["v"].rows]
        result[scale] = [(model.decoder_layers, model.pretrained_weights()) for model in models]
    gpt2 = "hub:openai-community/gpt2@607a30d783dfa663caf39e06633721c8d4cfcd7e"
    assert result["paper"] == [(3, None), (12, gpt2)]
    assert result["photos"] == [(3, None), (6, "language_model:photos")]
    assert result["scenes"] == [(3, None), (6, "language_model:scenes")]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"heads": 2}, ["heads 2", "4"]),
        ({"decoder_layers": 7}, ["decoder_layers 7", "6"]),
        ({"positions": 40}, ["positions 40", "32"]),
        ({"weights": "language_model:scene"}, ["'scene'", "language_models"]),
    ],
)
def test_a_language_model_that_does_not_fit_is_refused_before_it_is_trained(params, changes, named):
    with refused(ConfigError, "row 'twelve' of table 'v'", "'scenes'", *named):
        planned(with_visual_gpt(params, **changes), "scenes", ["v"])


def test_gpt2_is_refused_for_a_data_set_of_words(params):
    edited(with_visual_gpt(params), "scales/words.yaml", opening="Words", datasets={"*": "coco"})
    with refused(ConfigError, "GPT-2", "data set 'coco'"):
        planned(params, "words", ["v"])
