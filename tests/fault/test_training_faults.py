"""Training through the command line: killed at any moment, and given bad input."""

import signal
import subprocess
import time

import pytest

from helpers import refusals
from recap.core.checksums import recorded
from recap.core.errors import ChangedFile
from recap.core.files import exclusive
from recap.data.vocabulary import load_vocabulary
from recap.models.images import InputSpec
from recap.runs.folder import load_model
from recap.training.loop import SAVED


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


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_polite_signal_saves_before_it_leaves(prepared, unbroken, how):
    name = f"stopped-{how}"
    state = prepared.folder / name / "state"
    process, said = kill_when_saved(prepared.command(name), state, 3, how)
    assert process.returncode == 128 + how
    assert f"stopped by {how.name}; {SAVED}\n" in said
    assert "Traceback" not in said
    assert prepared.train(name).returncode == 0
    assert (prepared.folder / name / "run" / "model.safetensors").read_bytes() == unbroken


def test_a_signal_before_the_first_step_ends_at_once(prepared):
    process = subprocess.Popen(prepared.command("early"), stderr=subprocess.PIPE, text=True)
    lock = prepared.folder / "early" / "state" / "lock"
    while not lock.exists() and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGTERM)
    said = process.communicate()[1]
    assert process.returncode == -signal.SIGTERM and "Traceback" not in said, said


def test_two_trainings_never_share_a_state(prepared, unbroken):
    folder = prepared.folder / "shared" / "state"
    with exclusive(folder / "lock", wait_seconds=0, what="the state"):
        process = subprocess.Popen(prepared.command("shared"), stderr=subprocess.PIPE, text=True)
        waiting = process.stderr.readline()
        assert f"the state folder {folder} is in use by another process: waiting for it" in waiting
        assert not (folder / "last.pt").exists() and process.poll() is None
    assert process.communicate()[1] and process.returncode == 0  # its turn has come
    assert (prepared.folder / "shared" / "run" / "model.safetensors").read_bytes() == unbroken


def test_a_run_folder_is_verified(prepared, unbroken):
    run = prepared.folder / "unbroken" / "run"
    assert set(recorded(run)) == {"config.yaml", "history.csv", "training.json"}
    words = load_vocabulary(prepared.folder / "vocabulary.json")
    load_model(run, InputSpec({"main": 6}, len(words)))
    config = (run / "config.yaml").read_bytes()
    (run / "config.yaml").write_bytes(config.replace(b"heads: 2", b"heads: 4"))
    with refusals.refused(ChangedFile, "config.yaml"):
        load_model(run, InputSpec({"main": 6}, len(words)))
    (run / "config.yaml").write_bytes(config)


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
