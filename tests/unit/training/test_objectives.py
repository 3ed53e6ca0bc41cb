"""What the objectives compute: rewards, advantages, policies, scheduled sampling."""

import numpy as np
import pytest
import torch

from helpers.model_cases import build_model
from helpers.refusals import refused
from helpers.training import CAPTIONS, CONFIG, STAGES, Store, V, training
from recap.core.errors import TrainingError
from recap.data.vocabulary import BANNED, BOS, EOS, PAD
from recap.decoding.beam import beam_search
from recap.decoding.step import DecodingBatch, with_banned_tokens
from recap.models.images import InputSpec
from recap.nn.rows import PackedIndex
from recap.runs.inputs import caption_tensor
from recap.settings.recipes import CrossEntropy, DecodingSettings, ScheduledSampling, SelfCritical
from recap.training.batches import Batch
from recap.training.objectives import (
    CrossEntropyObjective,
    SelfCriticalObjective,
    advantages,
    gather_log_probabilities,
    policy_numbers,
    sampled_inputs,
)


def test_a_reward_of_nan_names_the_image(tmp_path):
    loop = training(tmp_path, stage=STAGES[1])

    class Broken:
        def score(self, images, captions):
            return np.array([np.nan if image == 7 else 0.5 for image in images])

    loop.step.objective.scorer = Broken()
    with refused(TrainingError, "image 7"):
        loop.run()


def test_rewards_are_of_whole_captions_and_statistics_are_logged(tmp_path):
    stage = SelfCritical(epochs=1, learning_rate=0.01, images_per_batch=4, baseline="greedy")
    loop = training(tmp_path, stage=stage)
    tokens = torch.tensor([[[4, 4, 2], [5, 2, 0]]])
    ended = [[4, 4, 2], [5, 2]]
    objective = loop.step.objective
    cider = torch.from_numpy(objective.scorer.score([0, 0], ended))
    torch.testing.assert_close(objective.reward([0], tokens)[0], cider)
    line = loop.run().history[0]
    assert {"reward", "reward_sd", "reward_greedy", "length"} <= set(line)
    assert line["log_probability"] < 0 < line["entropy"] < np.log(V)
    assert 0 < line["length"] <= 4


def test_gradient_of_the_policy_is_that_of_the_sampled_words(tmp_path):
    """With dropout off, the one teacher-forced pass gives the log-probabilities that sampling
    had."""
    loop = training(tmp_path, stage=SelfCritical(epochs=1, learning_rate=0.01, samples=3))
    objective = loop.step.objective
    objective.model.eval()
    memory = objective.model.encode(Store().read([0, 1]))
    sampled = objective.search(memory, 3)
    scores = beam_search(
        with_banned_tokens(objective.model.step, BANNED),
        objective.model.start(memory),
        DecodingBatch(2, BOS, EOS, PAD, torch.device("cpu")),
        DecodingSettings(beam=3, max_length=4),
    ).scores
    index = PackedIndex(sampled != PAD)
    log_probabilities = gather_log_probabilities(
        objective.log_policy(memory, sampled, index), sampled, index
    )
    torch.testing.assert_close(log_probabilities.sum(-1), scores, atol=1e-5, rtol=0)


def test_scheduled_sampling_rises_late_and_stays_below_its_limit():
    # As the X-LAN code: first above zero after epoch 11.
    rule = ScheduledSampling(start_epoch=6, interval=5, increment=0.05, max_prob=0.5)
    assert [rule.rate(epoch) for epoch in (0, 6, 10, 11, 16, 69)] == pytest.approx(
        [0, 0, 0, 0.05, 0.1, 0.5]
    )


def test_scheduled_sampling_replaces_words_only():
    torch.manual_seed(0)
    model = build_model(CONFIG, InputSpec({"main": 5}, V)).eval()
    memory = model.encode(Store().read([0, 1]))
    inputs = caption_tensor([[[4, 5, 6], [7]], [[8, 8]]])[..., :-1]
    assert torch.equal(sampled_inputs(model, memory, inputs, 0.0), inputs)
    drawn = sampled_inputs(model, memory, inputs, 1.0)
    assert torch.equal(drawn == 0, inputs == 0)  # padding stays
    assert torch.equal(drawn[..., 0], inputs[..., 0])  # so does <bos>
    assert not set(drawn[..., 1:].flatten().tolist()) & {1, 3}  # <bos> and <unk> are not said
    assert (drawn != inputs).any()


def test_advantages():
    rewards = torch.tensor([[1.0, 2.0, 6.0]])
    assert advantages(rewards, None).tolist() == [[-3.0, -1.5, 4.5]]
    assert advantages(rewards, torch.tensor([2.0])).tolist() == [[-1.0, 0.0, 4.0]]
    assert advantages(rewards, None, own=True).tolist() == [[-2.0, -1.0, 3.0]]  # 2 / 3 of the first


def test_log_probability_and_entropy_are_those_of_the_policy():
    log_probabilities = torch.tensor(
        [[0.5, 0.25, 0.25, 0.0], [1.0, 0.0, 0.0, 0.0]], dtype=torch.float64
    ).log()
    numbers = policy_numbers(log_probabilities, torch.tensor([1, 0]))
    assert numbers["log_probability"] == pytest.approx(np.log(0.25) / 2)
    assert numbers["entropy"] == pytest.approx(1.5 * np.log(2) / 2)


def test_a_weight_of_the_cross_entropy_adds_its_gradient(tmp_path):
    stage = SelfCritical(epochs=1, learning_rate=0.01, sampling="beam", samples=2)
    loop = training(tmp_path, stage=stage)
    batch = loop.batches.batch([0, 1, 2])
    policy, mixed = (
        gradients(loop, stage.model_copy(update={"cross_entropy": w}), batch) for w in (0.0, 0.3)
    )
    loop.model.zero_grad()
    targets = batch.tokens[..., 1:]
    hidden = loop.model.decode_words(
        batch.tokens[..., :-1], PackedIndex(targets != 0), loop.model.encode(batch.images)
    )
    (
        0.3 * torch.nn.functional.cross_entropy(loop.model.logits(hidden), targets[targets != 0])
    ).backward()
    for ours, plain, parameter in zip(mixed, policy, loop.model.parameters(), strict=True):
        torch.testing.assert_close(ours, plain + parameter.grad)


def test_dropout_acts_on_images_and_on_what_is_scored_but_not_on_what_is_drawn(
    tmp_path, monkeypatch
):
    stage = SelfCritical(
        epochs=1, learning_rate=0.01, sampling="beam", samples=2, cross_entropy=0.3, dropout=True
    )
    loop = training(tmp_path, stage=stage)
    model, objective = loop.model, loop.step.objective
    modes = {name: [] for name in ("encode", "start", "decode_words")}
    for name, seen in modes.items():
        inner = getattr(model, name)
        monkeypatch.setattr(
            model,
            name,
            lambda *args, inner=inner, seen=seen: (seen.append(model.training), inner(*args))[1],
        )
    batch = loop.batches.batch([0, 1, 2])
    losses = [objective(batch).loss.item() for _ in range(2)]
    assert modes == {"encode": [True] * 2, "start": [False] * 2, "decode_words": [True] * 4}
    assert losses[0] != losses[1]  # other masks


def of_beams(**changes):
    torch.manual_seed(0)
    model = build_model(CONFIG, InputSpec({"main": 5}, V)).eval()
    stage = SelfCritical(
        epochs=1, learning_rate=0.01, samples=3, baseline="mean_of_beam", **changes
    )
    return SelfCriticalObjective(model, stage, references=CAPTIONS, max_length=4)


@torch.no_grad()
def test_mean_of_beam_is_the_mean_reward_of_the_beams_whatever_was_drawn():
    drawing = of_beams()
    memory = drawing.model.encode(Store().read([0, 1]))
    beams = drawing.reward([0, 1], drawing.search(memory, 3))
    rewards = torch.rand(2, 3, dtype=torch.float64)
    torch.testing.assert_close(drawing.baseline([0, 1], memory, rewards, None), beams.mean(1))
    # where the beams are the samples, nothing is searched again
    torch.testing.assert_close(
        of_beams(sampling="beam").baseline([0, 1], memory, rewards, None), rewards.mean(1)
    )


def test_a_training_logs_the_baseline(tmp_path):
    stage = SelfCritical(epochs=1, learning_rate=0.01, baseline="mean_of_beam", samples=3)
    assert "reward_beam" in training(tmp_path, stage=stage).run().history[0]


def test_captions_of_only_an_end_token_give_finite_losses():
    """Nobody says a word: rewards are 0, lengths 1, and the gradient of the policy is 0."""
    drawing = of_beams()
    with torch.no_grad():
        drawing.model.output.bias[EOS] = 100.0
    images = Store().read([0, 1])
    logged = drawing(Batch.of([0, 1], images, torch.empty(0)))
    assert (
        logged.loss.item() == 0 and logged.numbers["length"] == 1 and logged.numbers["reward"] == 0
    )
    said = caption_tensor([[[]], [[]]])  # <bos> <eos>
    teaching = CrossEntropyObjective(drawing.model, CrossEntropy(epochs=1, learning_rate=0.01))
    logged = teaching(Batch.of([0, 1], images, said))
    assert 0 <= logged.loss.item() < 1e-3 and logged.num_averaged == 2


def test_a_loss_over_positions_is_the_one_over_tokens_thinned_by_the_places_after_the_end():
    """M2's and DLCT's mean over all places:
    sum(A log p) / (captions x longest) beside sum(A log p) / tokens."""
    batch = Batch.of([0, 1], Store().read([0, 1]), torch.empty(0))
    torch.manual_seed(1)
    tokens = of_beams()(batch)
    torch.manual_seed(1)
    positions = of_beams(loss_over="positions")(batch)
    mean_length = tokens.numbers["length"]
    assert mean_length < 4  # some caption ends before the longest that is allowed
    torch.testing.assert_close(positions.loss, tokens.loss * mean_length / 4)
    assert positions.num_averaged == 2 * 3 * 4 and tokens.num_averaged == round(mean_length * 6)
    assert "loss_over" not in SelfCritical(epochs=1, learning_rate=0.01).model_dump()


def gradients(loop, stage, batch):
    """Gradients of the loss of one batch."""
    loop.step.objective.stage = stage
    loop.model.zero_grad()
    logged = loop.step.objective(batch)
    (logged.loss + (0 if logged.added is None else logged.added)).backward()
    return [parameter.grad.clone() for parameter in loop.model.parameters()]
