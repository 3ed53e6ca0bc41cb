"""Each verdict that no training can change is that of the code and of the parameter files."""

import pytest
import torch

from helpers.model_cases import build_model
from helpers.plans import PARAMS, planned
from recap.data.datasets.coco import WORDS
from recap.data.subsets import subset_size
from recap.models.gpt2 import LanguageModel
from recap.models.images import InputSpec
from recap.plan.claims import papers_with_claims, read_claims
from recap.plan.run import row_runs
from recap.settings.datasets import COCO_CAPTIONS, COCO_IMAGES, COCO_PARTS
from recap.settings.params import load_named

SETTLED = {
    claim.id: claim
    for paper in papers_with_claims(PARAMS)
    for claim in read_claims(PARAMS, paper)
    if claim.fixed_verdict
}
ALL = sum(COCO_IMAGES.values())
GPT2_PIECES = 50_257
SPECIAL_IDS = 3  # <pad>, <bos> and <eos>; the papers count <unk> among the words


def millions(model, features):
    """Count the parameters of a model of the parameter files with the ids of COCO's words."""
    config = load_named(PARAMS, "models", model)
    with torch.device("meta"):
        built = build_model(
            config, InputSpec(dict.fromkeys(config.example_streams, features), WORDS[0] + 2)
        )
    return sum(parameter.numel() for parameter in built.parameters()) / 1e6


def zodiac_models():
    found = planned(PARAMS, "paper", ["zodiac/t3"])
    rows = found.tables["zodiac/t3"].rows
    width = found.settings.features(rows[0].features).vector_width
    return [millions(row.model, width) for row in rows]


def images(printed):
    assert COCO_PARTS["test2014"] == load_named(PARAMS, "datasets", "coco_test2014").counts.test
    return printed == [ALL, *COCO_IMAGES.values(), COCO_PARTS["test2014"]]


def words(printed):
    dataset = load_named(PARAMS, "datasets", "coco")
    assert (dataset.vocabulary.min_count, dataset.vocabulary.splits) == (6, "all")
    assert dataset.vocabulary_ids == WORDS[0] + 1 + SPECIAL_IDS
    return printed == [WORDS[0] + 1] == [9488 - 1]


def one_percent(printed):
    subset = load_named(PARAMS, "subsets", "image_1")
    assert {run.subset for run in planned(PARAMS, "paper", ["visualgpt/t4"]).scored} == {"image_1"}
    assert subset.unit == "image"
    return printed == [subset_size(COCO_IMAGES["train"], subset.fraction)]


def gpt2_small(printed):
    config = load_named(PARAMS, "models", "visual_gpt")
    with torch.device("meta"):
        model = LanguageModel(
            vocabulary_size=GPT2_PIECES,
            d_model=config.d_model,
            heads=config.heads,
            d_feed_forward=config.d_feed_forward,
            layers=config.decoder_layers,
            positions=config.positions,
            dropout=0,
        )
    counted = round(sum(parameter.numel() for parameter in model.parameters()) / 1e6)
    assert f"{counted} M" in SETTLED["visualgpt.c11"].fixed_verdict.why
    return printed == [counted]


def pictures(printed):
    train, val, test, total = map(int, printed)
    assert (val, test) == (COCO_PARTS["val2014"], COCO_PARTS["test2014"]) and train + val == ALL
    assert f"{train + val + test:,}" in SETTLED["xlan.c3"].fixed_verdict.why
    return train + val + test == total


def ensemble(printed):
    found = planned(PARAMS, "paper", ["xlan/t1"])
    rows = [row for row in found.tables["xlan/t1"].rows if row.ensemble]
    assert rows
    return {
        len(run.members) for row in rows for run in row_runs(row, found.seeds["xlan/t1"])
    } == set(printed)


def experiments(printed):
    found = planned(PARAMS, "paper", ["zodiac/t1"])
    assert {(len(found.seeds[name]), len(table.rows)) for name, table in found.tables.items()} == {
        (5, 3)
    }
    return printed == [len(found.scored)]


def wider_feed_forward(printed):
    _, transformer, plus, _ = zodiac_models()
    assert f"{plus - transformer:.1f} M" in SETTLED["zodiac.c3"].fixed_verdict.why
    assert f"{2048 * 4028 / 1e6:.2f} M" in SETTLED["zodiac.c3"].fixed_verdict.why
    return round(plus - transformer, 1) == printed[2]


def wider_attention(printed):
    narrow, wide = (
        load_named(PARAMS, "models", name) for name in ("transformer", "transformer_plus_plus")
    )
    # one attention in each of the encoder's, two in each of the decoder's
    layers = 3 * wide.decoder_layers
    assert wide.encoder_layers == wide.decoder_layers
    added = layers * 4 * (wide.d_model**2 - narrow.d_model**2) / 1e6
    assert f"{added:.1f} M" in SETTLED["zodiac.c4"].fixed_verdict.why
    return round(added, 1) == printed[3]


def counted(printed):
    found = [f"{number:.1f}" for number in zodiac_models()]
    labels = [row.label for row in load_named(PARAMS, "tables", "zodiac/t3").rows]
    assert all(f"({number} M)" in label for number, label in zip(found, labels, strict=True))
    assert ", ".join(found[:-1]) + f" and {found[-1]} M" in SETTLED["zodiac.c5"].fixed_verdict.why
    return found == [f"{number:.1f}" for number in printed]


CHECKS = {
    "acf.c4": images,
    "acf.c5": words,
    "fusion.c5": lambda split: split == list(COCO_IMAGES.values()),
    "visualgpt.c9": lambda captions: min(COCO_CAPTIONS, 5 * ALL) > captions[0],
    "visualgpt.c10": one_percent,
    "visualgpt.c11": gpt2_small,
    "xlan.c3": pictures,
    "xlan.c4": ensemble,
    "zodiac.c1": experiments,
    "zodiac.c3": wider_feed_forward,
    "zodiac.c4": wider_attention,
    "zodiac.c5": counted,
}


def test_every_settled_claim_is_checked():
    assert CHECKS.keys() == SETTLED.keys()


@pytest.mark.parametrize("claim", CHECKS)
def test_a_settled_verdict_is_true(claim):
    assert CHECKS[claim](SETTLED[claim].printed) == SETTLED[claim].fixed_verdict.holds
