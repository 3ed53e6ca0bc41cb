"""Messages: plain lines for a person, lines with times and levels in a file, and nothing printed by a library call."""

import re
import subprocess
import sys

import pytest

from helpers.refusals import refused
from recap.cli import main
from recap.core.errors import RecapError
from recap.core.log import FILE_ONLY, configure, labelled, log, shown


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


def test_messages_of_a_run_begin_with_its_label_and_paths_stay(capsys):
    configure()
    with labelled("acf+heads=2@demo", "ACF"):
        log.info("acf+heads=2@demo seed 1 xe, epoch 1/5")
        log.info("runs/acf+heads=2@demo/seed-1: taken")
        assert shown("acf+heads=2@demo seed 1 xe") == "ACF seed 1 xe"
    log.info("acf+heads=2@demo seed 1 xe, epoch 2/5")
    assert capsys.readouterr().err == (
        "ACF seed 1 xe, epoch 1/5\nruns/acf+heads=2@demo/seed-1: taken\nacf+heads=2@demo seed 1 xe, epoch 2/5\n"
    )


def test_a_level_leaves_out_what_is_below_it(capsys):
    configure("warning")
    log.info("tiny, epoch 1/3")
    log.warning("damaged")
    assert capsys.readouterr().err == "WARNING: damaged\n"


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
    assert "ERROR" in failed and "no such folder" in failed
    assert capsys.readouterr().err == failed.partition("errors: ")[2] + "\n"


def test_a_bug_leaves_its_traceback_in_the_log(tmp_path, monkeypatch):
    monkeypatch.setattr("recap.core.process.exit_with_workflow", lambda: 1 / 0)
    monkeypatch.setattr("recap.cli.exit_with_workflow", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["--log-file", str(tmp_path / "job.log"), "artifacts", "verify", "none"])
    assert "Traceback (most recent call last)" in (tmp_path / "job.log").read_text()


def test_a_log_file_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with refused(RecapError, "file/job.log"):
        configure("info", tmp_path / "file" / "job.log")


def test_a_library_call_prints_nothing_unless_the_program_asks():
    code = "from recap.core.log import log; log.info('quiet')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout + done.stderr == ""


def test_two_processes_that_share_a_file_do_not_share_a_line(tmp_path):
    code = "from recap.core.log import configure, log\nconfigure()\nfor n in range(3000): log.info(f'{name} ' * 20)"
    with (tmp_path / "log").open("wb") as file:
        both = [subprocess.Popen([sys.executable, "-c", f"name = {n!r}\n{code}"], stderr=file) for n in ("one", "two")]
        assert [process.wait() for process in both] == [0, 0]
    assert {len(set(line.split())) for line in (tmp_path / "log").read_text().splitlines()} == {1}
