"""A signal ends a command wherever it meets Python, as an error does: what it had half written goes."""

import os
import signal
import subprocess
import sys
import time
import weakref

import pytest

from recap.core.log import progress
from recap.core.process import WORKFLOW_VARIABLE, GracefulStop, exit_on_signals, raise_if_signalled


class Object:
    pass


def lose_a_signal(*_):
    """Signal this process in a callback, where Python prints an exception and forgets it."""
    signal.raise_signal(signal.SIGTERM)


def work():
    """Do what every long job does: a loop whose progress is shown."""
    for _ in progress(range(3), name="work", unit="items"):
        pass


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("stop", [exit_on_signals, lambda: GracefulStop("job")])
def test_a_signal_in_a_callback_is_not_forgotten(stop):
    with pytest.raises(SystemExit, match="143"), stop():
        thing = Object()
        reference = weakref.ref(thing, lose_a_signal)
        del thing
        assert reference() is None
        work()


IMPORTER = """
import signal
from recap.core.process import GracefulStop, exit_on_signals
with exit_on_signals(), GracefulStop("job") as stop:
    code = compile("signal.raise_signal(signal.SIGTERM)", "<frozen importlib._bootstrap>", "exec")
    with stop.deferred():
        exec(code)
    print(stop.received, flush=True)
    try:
        exec(code)
    finally:
        print("an exception met an import", flush=True)
"""


def test_an_import_is_never_met_by_an_exception():
    done = subprocess.run([sys.executable, "-c", IMPORTER], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (143, f"{signal.SIGTERM.value}\n", "")


def test_repeated_signals_do_not_interrupt_the_cleanup():
    cleaned = False
    with pytest.raises(SystemExit), GracefulStop("job"):
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
                signal.raise_signal(number)
            work()
            cleaned = True
    assert cleaned


def test_deferred_work_is_not_interrupted_but_its_interruptible_part_is():
    stop = GracefulStop("job")
    with pytest.raises(SystemExit, match="143"), stop, stop.deferred():
        signal.raise_signal(signal.SIGTERM)
        work()
        assert stop.received == signal.SIGTERM
        with stop.interruptible():
            raise AssertionError("it began")


def test_a_signal_does_not_outlive_its_command():
    before = signal.getsignal(signal.SIGINT)  # a process in the background of a shell ignores it
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), exit_on_signals():
            signal.raise_signal(signal.SIGINT)
        raise_if_signalled()
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_of_a_job_by_hand_is_one_line_and_130(capsys):
    with pytest.raises(SystemExit, match="130"), exit_on_signals(), GracefulStop("train"):
        signal.raise_signal(signal.SIGINT)
    assert capsys.readouterr().err == "train: stopped by SIGINT; the same command starts this step again\n"


def test_a_training_that_saved_its_state_says_so_and_nothing_else(capsys):
    with pytest.raises(SystemExit, match="143"), GracefulStop("train"), GracefulStop("loop") as stop, stop.deferred():
        signal.raise_signal(signal.SIGTERM)
        raise stop.exit("the state is saved")
    assert capsys.readouterr().err == "loop: stopped by SIGTERM; the state is saved\n"


@pytest.mark.slow
def test_a_command_that_imports_all_the_time_ends_when_signalled():
    code = """
import importlib, threading
from recap.core.process import exit_on_signals
from recap.core.log import progress
def load():
    for name in ("missing", "absent", "lacking"):
        try:
            importlib.import_module(name)
        except ImportError:
            pass
def others():
    while not ended.is_set():
        load()
ended = threading.Event()
thread = threading.Thread(target=others)
with exit_on_signals():
    try:
        thread.start()
        print("ready", flush=True)
        for _ in progress(iter(int, 1), name="load", unit="times"):
            load()
    finally:
        ended.set()
        thread.join()
"""
    for attempt in range(10):
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.02 * attempt)
        process.terminate()
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 143, said


WRITER = """
import sys, time
from recap.core.files import atomic_path
from recap.core.process import exit_on_signals
with exit_on_signals(), atomic_path(sys.argv[1]) as file:
    try:
        print(file, flush=True)
        time.sleep(60)
    finally:
        print("clearing up", flush=True)
        time.sleep(1)
"""


@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signalled_command_leaves_no_half_written_file_also_if_it_is_signalled_again(tmp_path, number, status):
    command = [sys.executable, "-c", WRITER, str(tmp_path / "result")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, WORKFLOW_VARIABLE: "a job's"}
    )
    assert process.stdout.readline().strip().endswith(".part")
    process.send_signal(number)
    assert process.stdout.readline() == "clearing up\n"
    process.terminate()
    assert process.wait(20) == status
    assert list(tmp_path.iterdir()) == []


READER = """
import threading
from contextlib import closing
from recap.core.process import bounded
from recap.core.process import exit_on_signals
from recap.features.prefetch import prefetch
def read():
    print("reading", flush=True)
    threading.Event().wait()
with exit_on_signals(), closing(prefetch(bounded(read, 60) for _ in range(9))) as items:
    list(items)
"""


@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signalled_command_does_not_wait_for_a_read_that_never_ends(number, status):
    environment = {**os.environ, WORKFLOW_VARIABLE: "a job's"}
    process = subprocess.Popen([sys.executable, "-c", READER], stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout.readline() == "reading\n"
    process.send_signal(number)
    assert process.wait(20) == status
