"""Progress without a terminal: whole lines that name the work and say how long the rest will take."""

import sys

import pytest

from recap.core import log as module
from recap.core.log import (
    FAILURES_VARIABLE,
    Lines,
    byte_bar,
    duration,
    failure_file,
    progress,
    record_failure,
    time_left,
)


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves on."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    "seconds, words",
    [
        (0.4, "0 s"),
        (45, "45 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (273_600, "3 d 4 h"),
        (59.6, "1 min"),
    ],
)
def test_times_are_words_of_two_units(seconds, words):
    assert duration(seconds) == words


def test_what_is_left_follows_from_what_was_done():
    assert time_left(3, 12, 60.0) == "about 3 min left"


def test_lines_come_after_ten_seconds_and_then_ever_more_rarely(clock, capsys):
    for _ in progress(range(1000), name="zodiac@demo seed 2 xe, epoch 1/3", unit="batches"):
        clock[0] += 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "zodiac@demo seed 2 xe, epoch 1/3: 10 of 1,000 batches, about 16 min 30 s left"
    assert 15 < len(lines) < 30 and all(line.startswith("zodiac@demo seed 2 xe, epoch 1/3: ") for line in lines)


def test_short_work_prints_nothing_and_no_line_is_ever_rewritten(clock, capsys):
    assert list(progress(range(5), name="short", unit="steps")) == [0, 1, 2, 3, 4]
    bar = byte_bar("fetch", total=None)
    bar.update(5 * 2**20)
    clock[0] += 61
    bar.update(2**20)
    bar.close()
    assert capsys.readouterr().err == "fetch: 6 MiB, 1 min 1 s so far\n"


def test_bytes_are_counted_against_their_total(clock, capsys):
    bar = Lines("fetch", unit="MiB", total=4 * 2**20, scale=2**20)
    clock[0] += 30
    bar.update(2**20)
    assert capsys.readouterr().err == "fetch: 1 of 4 MiB, about 1 min 30 s left\n"


def test_a_job_of_a_workflow_leaves_why_it_failed(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["recap", "train", "--stage", "xe"])
    monkeypatch.delenv(FAILURES_VARIABLE, raising=False)
    record_failure("nobody asked")
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv(FAILURES_VARIABLE, str(tmp_path / "failures"))
    record_failure("the loss is nan")
    file = failure_file(tmp_path / "failures", ["train", "--stage", "xe"])
    assert file.read_text() == "the loss is nan"


def test_of_pieces_of_a_whole_no_progress_is_shown(clock, capsys):
    with module.without_progress():
        items = progress([1, 2], name="piece", unit="batches")
        clock[0] += 60
        assert list(items) == [1, 2]
    assert capsys.readouterr().err == ""
    assert progress([1], name="whole", unit="batches") != [1]
