"""Baselines that come from a search of the model, and what becomes of captions without words."""

import torch

from helpers.training import CAPTIONS, CONFIG, Store, V, training
from recap.data.vocabulary import EOS
from recap.models.images import InputSpec
from recap.models.registry import build_model
from recap.runs.inputs import caption_tensor
from recap.settings import CrossEntropy, SelfCritical
from recap.training.batches import Batch
from recap.training.objectives import CrossEntropyObjective, SelfCriticalObjective


def objective(**changes):
    torch.manual_seed(0)
    model = build_model(CONFIG, InputSpec.of(5, V)).eval()
    stage = SelfCritical(epochs=1, learning_rate=0.01, samples=3, baseline="mean_of_beam", **changes)
    return SelfCriticalObjective(model, stage, references=CAPTIONS, max_length=4)


@torch.no_grad()
def test_mean_of_beam_is_the_mean_reward_of_the_beams_whatever_was_drawn():
    drawing = objective()
    memory = drawing.model.encode(Store().read([0, 1]))
    beams = drawing.reward([0, 1], drawing.search(memory, 3))
    rewards = torch.rand(2, 3, dtype=torch.float64)
    torch.testing.assert_close(drawing.baseline([0, 1], memory, rewards, None), beams.mean(1))
    # where the beams are the samples, nothing is searched again
    torch.testing.assert_close(objective(sampling="beam").baseline([0, 1], memory, rewards, None), rewards.mean(1))


def test_a_training_logs_the_baseline(tmp_path):
    stage = SelfCritical(epochs=1, learning_rate=0.01, baseline="mean_of_beam", samples=3)
    assert "reward_beam" in training(tmp_path, stage=stage).run().history[0]


def test_captions_of_only_an_end_token_give_finite_losses():
    """Nobody says a word: rewards are 0, lengths 1, and the gradient of the policy is 0."""
    drawing = objective()
    with torch.no_grad():
        drawing.model.output.bias[EOS] = 100.0
    images = Store().read([0, 1])
    logged = drawing(Batch([0, 1], images, torch.empty(0)))
    assert logged.loss.item() == 0 and logged.numbers["length"] == 1 and logged.numbers["reward"] == 0
    said = caption_tensor([[[]], [[]]])  # <bos> <eos>
    teaching = CrossEntropyObjective(drawing.model, CrossEntropy(epochs=1, learning_rate=0.01))
    logged = teaching(Batch([0, 1], images, said))
    assert 0 <= logged.loss.item() < 1e-3 and logged.num_tokens == 2


def test_a_loss_over_positions_is_the_one_over_tokens_thinned_by_the_places_after_the_end():
    """M2's and DLCT's mean over all places: sum(A log p) / (captions x longest) beside sum(A log p) / tokens."""
    batch = Batch([0, 1], Store().read([0, 1]), torch.empty(0))
    torch.manual_seed(1)
    tokens = objective()(batch)
    torch.manual_seed(1)
    positions = objective(loss_over="positions")(batch)
    mean_length = tokens.numbers["length"]
    assert mean_length < 4  # some caption ends before the longest that is allowed
    torch.testing.assert_close(positions.loss, tokens.loss * mean_length / 4)
    assert positions.num_tokens == 2 * 3 * 4 and tokens.num_tokens == round(mean_length * 6)
    assert "loss_over" not in SelfCritical(epochs=1, learning_rate=0.01).model_dump()
