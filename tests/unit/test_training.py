"""The loop on a tiny captioning task: it learns, it resumes exactly, it keeps the best weights."""

import json
import os
import random
import signal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from recap.core.config import CrossEntropy, ScheduledSampling, SelfCritical
from recap.core.errors import TrainingError
from recap.data.vocabulary.words import BOS
from recap.decoding.sampling import nucleus, within
from recap.decoding.step import forbid, forbidding
from recap.features.prefetch import prefetch
from recap.models.registry import build_model
from recap.runs.folder import _curve
from recap.runs.saved import load_weights
from recap.runs.weights import plain_weights, save_weights
from recap.training.batches import CaptionBatches, caption_tensor
from recap.training.checkpoint import load_state
from recap.training.job import warn_if_no_better
from recap.training.loop import Training
from recap.training.objectives.cross_entropy import CrossEntropyObjective, sampled_inputs
from recap.training.objectives.self_critical import NEVER_SAID, SelfCriticalObjective, advantages

CONFIG = {"kind": "zodiac", "d_model": 16, "heads": 2, "d_feed_forward": 16, "encoder_layers": 1, "decoder_layers": 1}
IMAGES, V = 12, 9


class Store:
    """Features in memory: image i shows the word 4 + i % 5."""

    def read(self, image_ids):
        kinds = torch.tensor([image % 5 for image in image_ids])
        return torch.eye(5)[kinds][:, None].repeat(1, 3, 1), torch.ones(len(image_ids), 3, dtype=torch.bool)


CAPTIONS = {image: [[4 + image % 5, 4 + image % 5], [4 + image % 5]] for image in range(IMAGES)}


class Killed(Exception):
    pass


def training(state, *, stage=None, scores=None, die_at=None, trained=False):
    torch.manual_seed(0)
    model = build_model(CONFIG, feature_size=5, vocabulary_size=V)
    stage = stage or CrossEntropy(epochs=4, learning_rate=0.01, images_per_batch=5)
    if isinstance(stage, SelfCritical):
        objective = SelfCriticalObjective(model, stage, references=CAPTIONS, max_length=4)
    else:
        objective = CrossEntropyObjective(model, stage)
    batches = CaptionBatches(store=Store(), captions=CAPTIONS, images_per_batch=stage.images_per_batch, seed=3)
    calls = iter(scores or [])
    loop = Training(
        model=model,
        objective=objective,
        batches=batches,
        validate=lambda: next(calls, 0.0) if scores else -loop.at.step,
        stage=stage,
        d_model=16,
        device=torch.device("cpu"),
        state=state,
        identity="test",
        name="tiny",
        checkpoint_minutes=1e-9,
        trained=trained,
    )
    if die_at is not None:
        inner = loop.objective

        def objective(batch, epoch):
            if loop.at.step == die_at:
                raise Killed
            return inner(batch, epoch)

        loop.objective = objective
    return loop


STAGES = [
    CrossEntropy(epochs=3, learning_rate=0.01, images_per_batch=5),
    SelfCritical(epochs=3, learning_rate=0.01, images_per_batch=5),
    CrossEntropy(
        epochs=3,
        learning_rate=0.01,
        images_per_batch=5,
        optimizer="radam",
        scheduled_sampling={"every": 1, "rise": 0.3},
    ),
]


@pytest.mark.parametrize("stage", STAGES, ids=["xe", "scst", "scheduled-radam"])
@pytest.mark.parametrize("die_at", [0, 1, 2, 3, 5, 8])
def test_killed_and_continued_equals_unbroken(tmp_path, stage, die_at):
    whole = training(tmp_path / "whole", stage=stage)
    expected = whole.run()
    with pytest.raises(Killed):
        training(tmp_path / "broken", stage=stage, die_at=die_at).run()
    again = training(tmp_path / "broken", stage=stage)
    counters = again.run()
    for ours, theirs in zip(again.model.state_dict().values(), whole.model.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)
    for line, other in zip(counters.history, expected.history, strict=True):
        assert {k: v for k, v in line.items() if k != "seconds"} == {k: v for k, v in other.items() if k != "seconds"}


def test_a_finished_training_is_not_repeated(tmp_path):
    training(tmp_path).run()
    assert training(tmp_path, die_at=12).run().step == 12


def test_best_weights_survive_a_worse_epoch_and_negative_scores(tmp_path):
    scores = [-3.2, -1.0, -2.0, -5.0]
    loop = training(tmp_path, scores=scores)
    kept = []
    close = loop._close_epoch
    loop._close_epoch = lambda since: (close(since), kept.append(loop.best_weights.read_bytes()))
    counters = loop.run()
    assert (counters.best, counters.best_epoch) == (-1.0, 2)
    assert kept[1] == kept[2] == kept[3] != kept[0]
    assert set(load_file(loop.best_weights)) == set(loop.model.state_dict())


def test_patience_ends_the_training(tmp_path):
    stage = CrossEntropy(epochs=9, learning_rate=0.01, images_per_batch=5, patience=2)
    assert training(tmp_path, stage=stage, scores=[0.1, 0.3, 0.2, 0.1, 0.9]).run().epoch == 4


def test_plateau_drops_the_rate(tmp_path):
    stage = CrossEntropy(
        epochs=9, learning_rate=0.01, images_per_batch=5, schedule={"kind": "plateau", "factor": 0.1, "every": 3}
    )
    scores = [0.3, 0.2, 0.4, 0.1, 0.2, 0.3, 0.1, 0.2, 0.3]
    history = training(tmp_path, stage=stage, scores=scores).run().history
    weight = torch.nn.Parameter(torch.zeros(1))
    adam = torch.optim.Adam([weight], lr=0.01)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(adam, mode="max", factor=0.1, patience=3, threshold=0)
    expected = []
    for score in scores:
        expected.append(adam.param_groups[0]["lr"])
        theirs.step(score)
    assert [line["learning_rate"] for line in history] == pytest.approx(expected)
    assert len({*expected}) == 2


def test_sigterm_saves_and_leaves(tmp_path):
    loop = training(tmp_path)
    inner = loop.objective

    def objective(batch, epoch):
        if loop.at.step == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return inner(batch, epoch)

    loop.objective = objective
    with pytest.raises(SystemExit) as leaving:
        loop.run()
    assert leaving.value.code == 143
    assert training(tmp_path, die_at=5).at.step == 0
    resumed = training(tmp_path)
    resumed._resume()
    assert resumed.at.step == 5


def test_a_loss_that_is_no_number_names_the_images(tmp_path):
    loop = training(tmp_path)
    loop.objective = lambda batch, epoch: (torch.tensor(torch.nan, requires_grad=True), {})
    with pytest.raises(TrainingError, match=r"the loss of step 1 is nan; its images are \["):
        loop.run()
    assert not (tmp_path / "last.pt").exists()


@pytest.mark.parametrize("stage", STAGES, ids=["xe", "scst", "scheduled-radam"])
def test_a_model_without_numbers_stops_with_step_and_images_saved(tmp_path, stage):
    loop = training(tmp_path, stage=stage)
    with torch.no_grad():
        loop.model.output.bias[4] = torch.nan
    with pytest.raises(TrainingError, match=r"failed_step\.json"):
        loop.run()
    failed = json.loads((tmp_path / "failed_step.json").read_text())
    assert failed["step"] == 1 and failed["image_ids"] == loop.batches.order(0)[0]
    assert not (tmp_path / "last.pt").exists()


def test_a_reward_of_nan_names_the_image(tmp_path):
    loop = training(tmp_path, stage=STAGES[1])

    class Broken:
        def score(self, images, captions):
            return np.array([np.nan if image == 7 else 0.5 for image in images])

    loop.objective.scorers = [(1.0, Broken())]
    with pytest.raises(TrainingError, match="the reward of image 7 is no number"):
        loop.run()


def test_rewards_mix_and_statistics_are_logged(tmp_path):
    stage = SelfCritical(epochs=1, learning_rate=0.01, images_per_batch=4, bleu4=0.5, baseline="greedy")
    loop = training(tmp_path, stage=stage)
    tokens = torch.tensor([[[4, 4, 2], [5, 2, 0]]])
    ended = [[4, 4, 2], [5, 2]]
    cider, bleu = (scorer.score([0, 0], ended) for _, scorer in loop.objective.scorers)
    torch.testing.assert_close(loop.objective._reward([0], tokens)[0], torch.from_numpy(cider + 0.5 * bleu))
    line = loop.run().history[0]
    assert {"reward", "reward_sd", "reward_greedy", "length"} <= set(line)
    assert 0 < line["length"] <= 4


def test_a_broken_state_is_named(tmp_path):
    training(tmp_path).run()
    (tmp_path / "last.pt").write_bytes(b"no checkpoint")
    with pytest.raises(TrainingError, match=r"last.pt: is damaged .* delete it to start over"):
        training(tmp_path).run()


def test_both_stages_learn(tmp_path):
    stage = CrossEntropy(epochs=60, learning_rate=0.02, images_per_batch=6)
    loop = training(tmp_path / "xe", stage=stage)
    history = loop.run().history
    assert history[-1]["loss"] < 0.5 * history[0]["loss"]
    stage = SelfCritical(epochs=40, learning_rate=0.02, images_per_batch=6)
    history = training(tmp_path / "scst", stage=stage).run().history
    assert history[-1]["reward"] > history[0]["reward"] + 0.5


def test_gradient_of_the_policy_is_that_of_the_sampled_words(tmp_path):
    """With dropout off, the one teacher-forced pass gives the log-probabilities that sampling had."""
    loop = training(tmp_path, stage=SelfCritical(epochs=1, learning_rate=0.01, samples=3))
    objective = loop.objective
    objective.model.eval()
    features, mask = Store().read([0, 1])
    memory = objective.model.encode(features, mask)
    sampled = objective._search(memory, 3)
    from recap.data.vocabulary.words import BOS, EOS, PAD
    from recap.decoding.beam import beam_search
    from recap.decoding.step import forbidding
    from recap.training.objectives.self_critical import NEVER_SAID

    _, scores = beam_search(
        forbidding(objective.model.step, NEVER_SAID),
        objective.model.start(memory),
        images=2,
        beam=3,
        max_length=4,
        bos=BOS,
        eos=EOS,
        pad=PAD,
        device=torch.device("cpu"),
    )
    log_probabilities, real = objective._score(memory, sampled)
    torch.testing.assert_close((log_probabilities * real).sum(-1), scores, atol=1e-5, rtol=0)


def test_scheduled_sampling_rises_late_and_stays_below_its_limit():
    rule = ScheduledSampling(start=6, every=5, rise=0.05, most=0.5)  # as X-LAN's code: first non-zero after epoch 11
    assert [rule.rate(epoch) for epoch in (0, 6, 10, 11, 16, 69)] == pytest.approx([0, 0, 0, 0.05, 0.1, 0.5])


def test_scheduled_sampling_replaces_words_only():
    torch.manual_seed(0)
    model = build_model(CONFIG, feature_size=5, vocabulary_size=V).eval()
    memory = model.encode(*Store().read([0, 1]))
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


def test_batches_cover_each_image_once_in_an_order_of_seed_and_epoch():
    batches = CaptionBatches(store=Store(), captions=CAPTIONS, images_per_batch=5, seed=3)
    order = batches.order(0)
    assert sorted(sum(order, [])) == list(range(IMAGES))
    assert len(order) == len(batches) == 3
    assert order == batches.order(0) != batches.order(1)


def test_caption_tensor_pads_words_and_captions():
    tokens = caption_tensor([[[5, 6], [7]], [[8]]])
    assert tokens.tolist() == [[[1, 5, 6, 2], [1, 7, 2, 0]], [[1, 8, 2, 0], [0, 0, 0, 0]]]


def test_reading_ahead_hands_errors_over():
    def items():
        yield 1
        raise OSError("gone")

    reader = prefetch(items())
    assert next(reader) == 1
    with pytest.raises(OSError, match="gone"):
        next(reader)


@pytest.mark.parametrize(("scores", "best", "epoch"), [([0.4, 0.1, 0.3], 0.4, 0), ([0.4, 0.1, 0.5], 0.5, 2)])
def test_the_weights_a_stage_begins_with_stay_unless_an_epoch_is_better(tmp_path, capsys, scores, best, epoch):
    stage = SelfCritical(epochs=2, learning_rate=0.01, images_per_batch=5)
    loop = training(tmp_path, stage=stage, scores=scores, trained=True)
    start = {name: value.clone() for name, value in loop.model.state_dict().items()}
    counters = loop.run()
    assert (counters.best, counters.best_epoch) == (best, epoch)
    assert [(line["epoch"], line["val_cider_d"]) for line in counters.history] == [*enumerate(scores)]
    kept = load_file(loop.best_weights)
    assert all(torch.equal(kept[name], start[name]) for name in start) is (epoch == 0)
    warn_if_no_better("tiny", counters)
    assert ("no epoch was better than the weights it began with" in capsys.readouterr().err) is (epoch == 0)
    text = _curve(counters.history).splitlines()
    assert text[0].startswith("epoch,step,loss,") and text[1].startswith("0,0,,") and len(text) == 4


@pytest.mark.parametrize("die_at", [0, 1, 4])
def test_a_killed_stage_does_not_forget_the_weights_that_it_began_with(tmp_path, die_at):
    stage = SelfCritical(epochs=2, learning_rate=0.01, images_per_batch=5)
    loop = training(tmp_path, stage=stage, scores=[0.4, 0.1, 0.3], trained=True, die_at=die_at)
    with pytest.raises(Killed):
        loop.run()
    left = [0.1, 0.3] if die_at < 3 else [0.3]
    counters = training(tmp_path, stage=stage, scores=left, trained=True).run()
    assert (counters.best, counters.best_epoch, len(counters.history)) == (0.4, 0, 3)


def test_the_policy_of_a_nucleus_is_the_nucleus(tmp_path):
    loop = training(tmp_path, stage=SelfCritical(epochs=1, learning_rate=0.01, samples=64, top_p=0.7))
    objective = loop.objective
    objective.model.eval().double()
    memory = objective.model.encode(*(x.double() if x.is_floating_point() else x for x in Store().read([0, 1])))
    with torch.no_grad():
        step = forbidding(objective.model.step, NEVER_SAID)
        first = nucleus(step(torch.full((2, 1), BOS), objective.model.start(memory))[0][:, 0], 0.7)  # [2, V]
    sampled, _ = objective._draw(memory)
    found, _ = objective._score(memory, sampled)
    expected = first.log_softmax(-1).gather(-1, sampled[..., 0])
    torch.testing.assert_close(found[..., 0].double(), expected, atol=1e-6, rtol=0)
    assert len(sampled[0, :, 0].unique()) > 1
    # The gradient of a log-probability under its own policy has mean 0; under the whole distribution it would not.
    p = first[0].softmax(-1)
    scores = objective.model.log_probabilities(objective.model.decode(torch.full((2, 1, 1), BOS), memory))[0, 0, 0]
    inside = within(forbid(scores, NEVER_SAID), first[0].isfinite())
    (gradient,) = torch.autograd.grad((p[p > 0] * inside[p > 0]).sum(), objective.model.output.bias)
    assert gradient.abs().max() < 1e-12


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("trained", [False, True])
def test_a_signal_ends_a_validation_at_once_and_no_bit_changes(tmp_path, number, trained, capsys):
    whole = training(tmp_path / "whole", trained=trained)
    whole.run()
    loop, calls = training(tmp_path / "stopped", trained=trained), []

    def validate():
        calls.append(1)
        if len(calls) == 1:
            os.kill(os.getpid(), number)
            raise AssertionError("went on")
        return -loop.at.step

    loop.validate = validate
    with pytest.raises(SystemExit) as leaving:
        loop.run()
    assert leaving.value.code == 128 + number
    said = [line for line in capsys.readouterr().err.splitlines() if "stopped by" in line]
    assert said == [f"tiny: stopped by {number.name}; the state is saved, and the same command continues from here"]
    again = training(tmp_path / "stopped", trained=trained)
    again.run()
    assert again.best_weights.read_bytes() == whole.best_weights.read_bytes()
    for ours, theirs in zip(again.model.state_dict().values(), whole.model.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs)


def flipped(path, seed):
    chance, content = random.Random(seed), bytearray(path.read_bytes())
    for _ in range(3):
        place = chance.randrange(len(content))
        content[place] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def test_flipped_bits_in_weights_are_refused_or_harmless(tmp_path):
    path, model = tmp_path / "model.safetensors", build_model(CONFIG, feature_size=5, vocabulary_size=V)
    save_weights(path, plain_weights(model))
    whole, refused = path.read_bytes(), 0
    for seed in range(100):
        path.write_bytes(whole)
        flipped(path, seed)
        other = build_model(CONFIG, feature_size=5, vocabulary_size=V)
        try:
            load_weights(other, path)
        except TrainingError as error:
            assert "is damaged" in str(error)
            refused += 1
        else:
            assert all(torch.equal(a, b) for a, b in zip(other.parameters(), model.parameters(), strict=True))
    assert refused > 90


def test_weights_that_others_wrote_have_no_digest_and_load(tmp_path):
    model = build_model(CONFIG, feature_size=5, vocabulary_size=V)
    save_file(model.state_dict(), tmp_path / "theirs.safetensors")
    load_weights(model, tmp_path / "theirs.safetensors")
    with pytest.raises(TrainingError, match="do not fit the model"):
        load_weights(build_model(CONFIG, feature_size=6, vocabulary_size=V), tmp_path / "theirs.safetensors")


def test_flipped_bits_in_a_state_are_refused_or_harmless(tmp_path):
    loop = training(tmp_path)
    loop.run()
    path = tmp_path / "last.pt"
    whole, refused = path.read_bytes(), 0
    expected = load_state(tmp_path, identity="test")
    for seed in range(100):
        path.write_bytes(whole)
        flipped(path, seed)
        try:
            found = load_state(tmp_path, identity="test")
        except TrainingError as error:
            assert "last.pt: is damaged" in str(error)
            refused += 1
        else:
            assert found is not None and equal(found, expected)
    assert refused > 60  # a small file has many bytes of padding


def equal(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return one == other
