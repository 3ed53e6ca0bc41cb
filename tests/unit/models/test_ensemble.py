"""Models that speak together."""

import pytest
import torch

from helpers.model_cases import build_model
from recap.decoding.beam import beam_search
from recap.decoding.step import DecodingBatch
from recap.models.ensemble import Ensemble
from recap.models.images import Images, InputSpec
from recap.settings import DecodingSettings

F, V = 5, 9
XLAN = {"kind": "xlan", "d_model": 8, "heads": 2, "d_joint": 3, "encoder_layers": 1}
TRANSFORMER = {"kind": "transformer", "d_model": 8, "heads": 2, "d_feed_forward": 8}
TRANSFORMER |= {"encoder_layers": 1, "decoder_layers": 1}


def build(config, seed):
    torch.manual_seed(seed)
    return build_model(config, InputSpec({"main": F}, V)).double().eval()


@pytest.fixture
def batch():
    torch.manual_seed(7)
    images = Images.of(
        torch.randn(3, 4, F, dtype=torch.float64), torch.ones(3, 4, dtype=torch.bool)
    )
    return images, torch.randint(3, V, (3, 2, 5))


def search(model, images):
    start = DecodingBatch(len(images), 1, 2, 0, images.device)
    return beam_search(
        model.step, model.start(model.encode(images)), start, DecodingSettings(beam=2, max_length=6)
    )


@pytest.mark.parametrize("config", [XLAN, TRANSFORMER])
def test_one_model_is_the_model(config, batch):
    images, tokens = batch
    model = build(config, 0)
    alone = Ensemble([model])
    expected = model.log_probabilities(model.decode(tokens, model.encode(images)))
    assert torch.equal(alone.decode(tokens, alone.encode(images)), expected)
    ours, theirs = search(alone, images), search(model, images)
    assert torch.equal(ours.tokens, theirs.tokens)
    assert torch.equal(ours.scores, theirs.scores)


def test_the_mean_of_probabilities_of_different_kinds(batch):
    images, tokens = batch
    models = [build(XLAN, 0), build(XLAN, 1), build(TRANSFORMER, 2)]
    together = Ensemble(models)
    each = [
        model.log_probabilities(model.decode(tokens, model.encode(images))).exp()
        for model in models
    ]
    expected = torch.stack(each).mean(0)
    forced = together.log_probabilities(together.decode(tokens, together.encode(images)))
    torch.testing.assert_close(forced.exp(), expected, atol=1e-12, rtol=0)
    state = together.start(together.encode(images)).reorder(torch.zeros(3, 2, dtype=torch.long))
    for position, word in enumerate(tokens.unbind(-1)):
        out, state = together.step(word, state)
        torch.testing.assert_close(out.exp(), expected[:, :, position], atol=1e-10, rtol=0)
    assert state.position == 5


def test_images_leave_an_ensemble_without_changing_the_others(batch):
    images, _ = batch
    together = Ensemble([build(XLAN, 0), build(TRANSFORMER, 1)])
    all_images = search(together, images)
    for image in range(3):
        alone = search(together, images.select(torch.tensor([image])))
        assert torch.equal(alone.tokens, all_images.tokens[image : image + 1])
        torch.testing.assert_close(alone.scores, all_images.scores[image : image + 1])
