"""Every kind of model, and an ensemble, draws captions
of one image of a batch through the step interface."""

import pytest
import torch
from torch.nn.functional import pad

from helpers.model_cases import BOS, EOS, PAD, V, built, cases, random_images
from recap.decoding.sampling import sample_one
from recap.decoding.step import DecodingBatch, ban_tokens, with_banned_tokens
from recap.models.ensemble import Ensemble

pytestmark = pytest.mark.seconds

START = DecodingBatch(1, BOS, EOS, PAD, torch.device("cpu"))
CASES = {name: config for name, config in cases() if "=" not in name}  # one of each kind


def check(model, images):
    state = model.start(model.encode(images)).select(torch.tensor([1]))
    options = {"max_length": 5, "samples": 4, "temperature": 2.0, "seed": 7}
    with torch.no_grad():
        tokens, sums = sample_one(
            with_banned_tokens(model.step, [PAD, BOS]), state, START, **options
        )
        # All but the padding, by teacher forcing of the image's four captions.
        inputs = pad(tokens[None, :, :-1], (1, 0), value=BOS).expand(3, -1, -1)
        forced = model.log_probabilities(model.decode(inputs, model.encode(images)))[1]
        forced = ban_tokens(forced, [PAD, BOS])  # [S, T, V]
    chosen = forced.gather(-1, tokens[..., None])[..., 0]
    assert tokens.max() < V and len(set(map(tuple, tokens.tolist()))) > 1
    torch.testing.assert_close(sums, chosen.masked_fill(tokens == PAD, 0).sum(-1))


@pytest.mark.parametrize("name", CASES)
def test_drawn_captions_of_one_image_have_the_log_probabilities_of_teacher_forcing(name):
    check(built(CASES[name]), random_images(CASES[name]))


def test_an_ensemble_draws_from_the_mean_of_its_members():
    config = CASES["transformer"]
    models = [built(config), built(config)]
    with torch.no_grad():
        for parameter in models[1].parameters():
            parameter.add_(0.1)
    check(Ensemble(models), random_images(config))
