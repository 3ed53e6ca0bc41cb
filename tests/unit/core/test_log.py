"""Messages: plain lines for a person, lines with times in a file,
progress, and nothing printed by a library call."""

import re
import sys

import pytest

from helpers.refusals import refused
from recap.cli import main
from recap.core.errors import RecapError
from recap.core.log import (
    FAILURES_VARIABLE,
    FILE_ONLY,
    LABELS,
    byte_bar,
    configure,
    duration,
    failure_file,
    log,
    progress,
    record_failure,
    shown,
)


@pytest.fixture(autouse=True)
def restored():
    yield
    configure()


def test_messages_are_plain_and_a_warning_says_so(capsys):
    configure()
    log.debug("not asked for")
    log.info("tiny, epoch 1/3")
    log.warning("tiny: no epoch was better")
    log.error("recap: the loss is nan")
    out, err = capsys.readouterr()
    assert err == "tiny, epoch 1/3\nWARNING: tiny: no epoch was better\nrecap: the loss is nan\n"
    assert out == ""
    configure("warning")
    log.info("tiny, epoch 1/3")
    log.warning("damaged")
    assert capsys.readouterr().err == "WARNING: damaged\n"


def test_messages_of_a_run_begin_with_its_label_and_paths_stay(capsys):
    configure()
    LABELS["acf+heads=2@demo"] = "ACF"
    log.info("acf+heads=2@demo seed 1 xe, epoch 1/5")
    log.info("runs/acf+heads=2@demo/seed-1: taken")
    assert shown("acf+heads=2@demo seed 1 xe") == "ACF seed 1 xe"
    configure()
    log.info("acf+heads=2@demo seed 1 xe, epoch 2/5")
    assert capsys.readouterr().err == (
        "ACF seed 1 xe, epoch 1/5\nruns/acf+heads=2@demo/seed-1: taken\nacf+heads=2@demo seed 1 "
        "xe, epoch 2/5\n"
    )


def test_the_file_has_time_level_and_module_and_grows(tmp_path, capsys):
    file = tmp_path / "logs" / "train.log"
    for message in ("first", "second"):
        configure("info", file)
        log.info(message)
    log.error("a traceback", extra=FILE_ONLY)
    lines = file.read_text().splitlines()
    assert [re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ", "", line) for line in lines] == [
        "INFO    test_log: first",
        "INFO    test_log: second",
        "ERROR   test_log: a traceback",
    ]
    assert capsys.readouterr().err == "first\nsecond\n"


def test_a_command_writes_its_own_words_and_its_error_into_its_log(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RECAP_LOG", str(tmp_path / "job.log"))
    with pytest.raises(SystemExit):
        main(["artifacts", "verify", str(tmp_path / "none")])
    called, failed = (tmp_path / "job.log").read_text().splitlines()
    assert f"recap artifacts verify {tmp_path / 'none'}" in called
    assert "ERROR" in failed and "no SHA256SUMS" in failed
    assert capsys.readouterr().err == failed.partition("errors: ")[2] + "\n"
    with refused(RecapError, "job.log/x"):
        configure("info", tmp_path / "job.log" / "x")


def test_times_are_words_of_two_units():
    seconds = (0.4, 45, 59.6, 200, 7500, 273_600)
    assert [*map(duration, seconds)] == [
        "0 s",
        "45 s",
        "1 min",
        "3 min 20 s",
        "2 h 5 min",
        "3 d 4 h",
    ]


@pytest.fixture
def clock(monkeypatch):
    """A clock of tqdm that a test moves on."""
    now = [100.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    return now


def test_progress_without_a_terminal_is_a_line_now_and_then(clock, capsys):
    configure()
    for _ in progress(range(1000), name="{zodiac}@demo seed 2", unit="batches"):
        clock[0] += 1
    lines = capsys.readouterr().err.splitlines()
    assert (
        25 < len(lines) < 40 and lines[0] == "{zodiac}@demo seed 2: 30 of 1000 batches, 16:10 left"
    )
    assert all(line.startswith("{zodiac}@demo seed 2: ") for line in lines)


def test_bytes_are_counted_and_short_work_and_pieces_of_a_whole_print_nothing(clock, capsys):
    with byte_bar(total=None) as bar:
        clock[0] += 61
        bar.update(2**20)
    assert capsys.readouterr().err == "fetch: 1.00M B, 01:01 so far\n"
    assert list(progress(range(5), name="short", unit="steps")) == [0, 1, 2, 3, 4]
    for _ in progress(range(1000), name="", unit="steps"):
        clock[0] += 1
    assert capsys.readouterr().err == ""


def test_a_job_of_a_workflow_leaves_why_it_failed(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["recap", "train", "--stage", "xe"])
    monkeypatch.delenv(FAILURES_VARIABLE, raising=False)
    record_failure("nobody waits for it")
    assert not list(tmp_path.iterdir())
    monkeypatch.setenv(FAILURES_VARIABLE, str(tmp_path / "failures"))
    record_failure("the loss is nan")
    assert (
        failure_file(tmp_path / "failures", ["train", "--stage", "xe"]).read_text()
        == "the loss is nan"
    )
