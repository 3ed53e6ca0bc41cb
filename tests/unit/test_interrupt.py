"""A signal ends a command wherever it meets Python: nothing forgets the exception, and no lock stays taken."""

import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

from recap.core.process.exit_on_signals import exit_on_signals
from recap.core.process.graceful_stop import GracefulStop
from recap.core.process.interrupt import Interrupt, on_its_way_out

ROOT = Path(__file__).resolve().parents[2]
LATE = 5.0  # seconds, after which a lost signal would be noticed


class Object:
    pass


def lose_a_signal(*_):
    """Signal this process in a callback, where Python prints an exception and forgets it."""
    signal.raise_signal(signal.SIGTERM)


def work():
    end = time.monotonic() + LATE
    while time.monotonic() < end:
        time.sleep(0.01)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("stop", [exit_on_signals, lambda: GracefulStop("job")])
def test_a_signal_in_a_callback_is_not_forgotten(stop):
    begun = time.monotonic()
    alarm = signal.getsignal(signal.SIGALRM)
    with pytest.raises(SystemExit, match="143"), stop():
        thing = Object()
        reference = weakref.ref(thing, lose_a_signal)
        del thing
        assert reference() is None
        work()
    assert time.monotonic() - begun < LATE
    assert signal.getsignal(signal.SIGALRM) == alarm


@pytest.mark.parametrize("stop", [exit_on_signals, lambda: GracefulStop("job")])
def test_an_import_is_finished_first(stop):
    lock = threading.Lock()
    names = {"lock": lock, "signal": signal}
    code = "lock.acquire()\nsignal.raise_signal(signal.SIGTERM)\nlock.release()\n"
    with pytest.raises(SystemExit, match="143"), stop():
        exec(compile(code, "<frozen importlib._bootstrap>", "exec"), names)
        work()
    assert not lock.locked()


def test_repeated_signals_do_not_interrupt_the_cleanup():
    cleaned = False
    with pytest.raises(SystemExit), GracefulStop("job"):
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
                signal.raise_signal(number)
                time.sleep(0.1)
            assert on_its_way_out()
            cleaned = True
    assert cleaned


def test_deferred_work_is_not_interrupted():
    stop = GracefulStop("job")
    with stop, stop.deferred():
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.2)
        assert stop.received == signal.SIGINT


def test_a_workflow_that_is_stopped_early_leaves_no_alarm_to_the_end_of_python():
    # Python takes the handlers down when it ends: an alarm after that kills the process.
    code = """
import atexit, signal, types
atexit.register(lambda: print(signal.getitimer(signal.ITIMER_REAL), int(signal.getsignal(signal.SIGALRM))))
from workflow.stopping import stop_before_jobs
stop_before_jobs(types.SimpleNamespace(is_main_process=True))
signal.setitimer = lambda *given, set=signal.setitimer: set(given[0], given[1] and 60.0)  # the alarm stays due
signal.raise_signal(signal.SIGTERM)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "recap: stopped by SIGTERM before the first job\n")
    assert done.stdout == f"(0.0, 0.0) {int(signal.SIG_DFL)}\n"


def test_an_alarm_while_an_interrupt_ends_sets_no_other(monkeypatch):
    interrupt = Interrupt()
    with pytest.raises(SystemExit):
        interrupt.raise_(SystemExit(), None)
    stop = signal.setitimer

    def alarm_first(*given):
        signal.raise_signal(signal.SIGALRM)
        return stop(*given)

    with monkeypatch.context() as patch:
        patch.setattr(signal, "setitimer", alarm_first)
        interrupt.end()
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.slow
def test_a_command_that_imports_all_the_time_ends_when_signalled():
    code = """
import importlib, threading
from recap.core.process.exit_on_signals import exit_on_signals
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
        while True:
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
