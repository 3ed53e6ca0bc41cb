"""Training through the command line: killed at any moment, and given bad input."""

import signal
import subprocess
import time

import pytest


@pytest.fixture(scope="module")
def prepared(prepare):
    return prepare()


@pytest.fixture(scope="module")
def unbroken(prepared):
    done = prepared.train("unbroken")
    assert done.returncode == 0, done.stderr
    return (prepared.folder / "unbroken" / "run" / "model.safetensors").read_bytes()


def kill_when_saved(command, state, saves, how):
    """Start a training and kill it after so many saves of its state."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    seen, last = 0, None
    while seen < saves and process.poll() is None:
        now = (state / "last.pt").stat().st_mtime_ns if (state / "last.pt").exists() else None
        seen, last = seen + (now != last), now
        time.sleep(0.001)
    assert process.poll() is None, process.communicate()[1]
    process.send_signal(how)
    return process, process.communicate()[1]


@pytest.mark.parametrize("saves", [4, 19])
def test_sigkill_in_mid_epoch_changes_no_bit(prepared, unbroken, saves):
    name = f"killed-{saves}"
    state = prepared.folder / name / "state"
    process, _ = kill_when_saved(prepared.command(name), state, saves, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    run = prepared.folder / name / "run"
    assert not run.exists()
    done = prepared.train(name)
    assert done.returncode == 0, done.stderr
    assert "continuing at epoch" in done.stderr
    assert (run / "model.safetensors").read_bytes() == unbroken


def test_sigterm_saves_before_it_leaves(prepared, unbroken):
    state = prepared.folder / "stopped" / "state"
    process, _ = kill_when_saved(prepared.command("stopped"), state, 3, signal.SIGTERM)
    assert process.returncode == 143
    assert prepared.train("stopped").returncode == 0
    assert (prepared.folder / "stopped" / "run" / "model.safetensors").read_bytes() == unbroken


def test_state_of_another_config_is_not_continued(prepared, unbroken):
    changed = {"stage_config": {"epochs": 1, "learning_rate": 0.001, "images_per_batch": 2}}
    assert prepared.train("changed", **changed).returncode == 0
    done = prepared.train("changed")
    assert "continuing" not in done.stderr
    assert (prepared.folder / "changed" / "run" / "model.safetensors").read_bytes() == unbroken


def refused(prepared, name, **changes):
    done = prepared.train(name, **changes)
    assert done.returncode == 2, done.stderr
    assert not (prepared.folder / name / "run").exists()
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1 and lines[0].startswith("recap: ")
    return lines[0]


def test_image_without_features_is_named(prepare):
    prepared = prepare(without=(7,))
    sentence = refused(prepared, "run")
    assert "7" in sentence and "features.h5" in sentence


def test_absent_gpu_is_said(prepared):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU, so asking for one is no mistake")
    assert "'cuda' is asked for" in refused(prepared, "gpu", device="cuda")


def test_unknown_key_and_model_are_named(prepared):
    wrong = {"stage_config": {"epochs": 1, "learning_rat": 0.1}}
    assert "unknown key 'learning_rat'; did you mean 'learning_rate'" in refused(prepared, "key", **wrong)
    sentence = refused(prepared, "kind", model_config={"kind": "zodiak"})
    assert "unknown kind 'zodiak'; did you mean 'zodiac'" in sentence
    sentence = refused(prepared, "heads", model_config={"kind": "zodiac", "d_model": 10, "heads": 3})
    assert "d_model 10 is not divisible by 3 heads" in sentence
