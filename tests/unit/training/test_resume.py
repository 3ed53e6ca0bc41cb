"""A training that is killed, told to end or given a broken state: the same bits, or one
sentence."""

import os
import signal

import pytest
import torch

from helpers.refusals import refused
from helpers.training import IDENTITY, STAGES, Killed, training
from recap.core.errors import TrainingError
from recap.settings import CrossEntropy, SelfCritical
from recap.training.distributed import Group

pytestmark = pytest.mark.seconds


@pytest.mark.parametrize("stage", STAGES, ids=["xe", "scst-average", "scheduled-radam"])
@pytest.mark.parametrize("die_at", [0, 2, 3, 8])
def test_killed_and_continued_equals_unbroken(tmp_path, stage, die_at):
    whole = training(tmp_path / "whole", stage=stage)
    expected = whole.run()
    with pytest.raises(Killed):
        training(tmp_path / "broken", stage=stage, die_at=die_at).run()
    again = training(tmp_path / "broken", stage=stage)
    counters = again.run()
    for ours, theirs in zip(
        again.model.state_dict().values(), whole.model.state_dict().values(), strict=True
    ):
        assert torch.equal(ours, theirs)
    if stage.weight_average:
        for ours, theirs in zip(again.average.averages, whole.average.averages, strict=True):
            assert torch.equal(ours, theirs)
    for line, other in zip(counters.history, expected.history, strict=True):
        assert {k: v for k, v in line.items() if k != "seconds"} == {
            k: v for k, v in other.items() if k != "seconds"
        }


def test_a_finished_training_is_not_repeated(tmp_path):
    training(tmp_path).run()
    assert training(tmp_path, die_at=12).run().step == 12


def test_sigterm_saves_and_leaves(tmp_path):
    loop = training(tmp_path)
    inner = loop.step.objective

    def objective(batch, epoch):
        if loop.progress.step == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return inner(batch, epoch)

    loop.step.objective = objective
    with pytest.raises(SystemExit) as leaving:
        loop.run()
    assert leaving.value.code == 143
    assert training(tmp_path, die_at=5).progress.step == 0
    resumed = training(tmp_path)
    resumed._resume()
    assert resumed.progress.step == 5


def test_a_broken_state_is_named(tmp_path):
    training(tmp_path).run()
    (tmp_path / "last.pt").write_bytes(b"no checkpoint")
    with refused(TrainingError, "last.pt"):
        training(tmp_path).run()


@pytest.mark.parametrize("die_at", [0, 1, 4])
def test_a_killed_stage_does_not_forget_the_weights_that_it_began_with(tmp_path, die_at):
    stage = SelfCritical(epochs=2, learning_rate=0.01, images_per_batch=5)
    loop = training(tmp_path, stage=stage, scores=[0.4, 0.1, 0.3], trained=True, die_at=die_at)
    with pytest.raises(Killed):
        loop.run()
    left = [0.1, 0.3] if die_at < 3 else [0.3]
    counters = training(tmp_path, stage=stage, scores=left, trained=True).run()
    assert (counters.best, counters.best_epoch, len(counters.history)) == (0.4, 0, 3)


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
        return -loop.progress.step

    loop.validate = validate
    with pytest.raises(SystemExit) as leaving:
        loop.run()
    assert leaving.value.code == 128 + number
    said = [line for line in capsys.readouterr().err.splitlines() if "stopped by" in line]
    assert said == [
        f"tiny: stopped by {number.name}; the state is saved, and the same command continues from "
        "here"
    ]
    again = training(tmp_path / "stopped", trained=trained)
    again.run()
    assert again.best_weights.read_bytes() == whole.best_weights.read_bytes()
    for ours, theirs in zip(
        again.model.state_dict().values(), whole.model.state_dict().values(), strict=True
    ):
        assert torch.equal(ours, theirs)


def test_the_state_of_another_training_is_set_aside_and_what_differs_is_named(tmp_path, capsys):
    training(tmp_path).run()
    old = {name: (tmp_path / name).read_bytes() for name in ("last.pt", "best.safetensors")}
    changed = {**IDENTITY, "settings": {"epochs": 5}, "source": "1"}
    assert training(tmp_path, identity=changed).run().step == 12
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "another training" in line]
    assert (
        'last.pt: the state of another training (settings.epochs 4 -> 5, source "0" -> "1"), which '
        "starts over"
    ) in said
    assert {name: (tmp_path / f"previous.{name}").read_bytes() for name in old} == old


def with_epochs(epochs, **changes):
    """Return a stage, and the identity of its training."""
    rate = {} if "schedule" in changes else {"learning_rate": 0.01}
    stage = CrossEntropy(epochs=epochs, images_per_batch=5, **rate, **changes)
    return {
        "stage": stage,
        "identity": {**IDENTITY, "settings": {"stage_settings": stage.model_dump(mode="json")}},
    }


@pytest.mark.parametrize(
    ("changes", "goes_on"),
    [
        ({}, True),
        (
            {"schedule": {"kind": "plateau", "learning_rate": 0.01, "factor": 0.5, "patience": 0}},
            True,
        ),
        ({"schedule": {"kind": "cosine", "learning_rate": 0.01}}, False),
        ({"validate_every": 2}, True),
        ({"validate_every": 3}, False),
    ],
)
def test_a_finished_training_with_more_epochs_equals_one_that_had_them_at_once(
    tmp_path, changes, goes_on, capsys
):
    whole = training(tmp_path / "whole", **with_epochs(4, **changes))
    whole.run()
    training(tmp_path / "longer", **with_epochs(2, **changes)).run()
    capsys.readouterr()
    longer = training(tmp_path / "longer", **with_epochs(4, **changes))
    longer.run()
    assert ("continuing at epoch 3" in capsys.readouterr().err) is goes_on
    for ours, theirs in zip(
        longer.model.state_dict().values(), whole.model.state_dict().values(), strict=True
    ):
        assert torch.equal(ours, theirs)
    assert longer.best_weights.read_bytes() == whole.best_weights.read_bytes()


def test_each_process_gets_its_own_random_states_back(tmp_path, monkeypatch):
    states = {name: torch.randint(256, (2, 16), dtype=torch.uint8) for name in ("cpu", "cuda")}
    restored = {}
    training(tmp_path).run()
    state = torch.load(tmp_path / "last.pt", weights_only=True)
    torch.save({**state, "random": states}, tmp_path / "last.pt")
    monkeypatch.setattr(torch, "set_rng_state", lambda state: restored.update(cpu=state))
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state: restored.update(cuda=state))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for rank in (0, 1):
        loop = training(tmp_path)
        loop.group = Group(rank, 2)
        loop._resume()
        assert loop.progress.step == 12
        assert all(torch.equal(restored[name], states[name][rank]) for name in states)


def test_the_random_state_of_a_gpu_is_saved(monkeypatch):
    monkeypatch.setattr(
        torch.cuda, "get_rng_state", lambda device: torch.arange(16, dtype=torch.uint8)
    )
    states = Group(device=torch.device("cuda")).random_states()
    assert states["cuda"].tolist() == [[*range(16)]] and torch.equal(
        states["cpu"][0], torch.get_rng_state()
    )
