"""What a user reads while Snakemake works."""

import json
import logging
import re
import sys
from datetime import datetime
from types import SimpleNamespace

import pytest
from snakemake_interface_logger_plugins.common import LogEvent
from workflow.messages import Messages
from workflow.plan import changes, label

from recap.core.differences import listed
from recap.core.process.failures import FAILURES_VARIABLE, failure_file

RUN = {"dataset": "coco", "subset": "full", "features": "grid", "model": "zodiac", "recipe": "demo", "seed": "2"}
LABELS = {"coco/full/grid/zodiac@demo/xe": "ZoDIAC", "coco/full/grid/zodiac@demo/scst": "ZoDIAC (long)"}
TRAIN = "set -euo pipefail;  /my/python -m recap train --stage xe --spec '{\"a\": 1}' --out 'a folder'"


def recorded(**changed):
    """Return parameters as Snakemake records them."""
    spec = {"stage_settings": {"learning_rate": 0.0003, "schedule": {"kind": "noam"}}, "model_settings": {"heads": 8}}
    for key, value in changed.items():
        spec[key] = {**spec.get(key, {}), **value}
    return repr(json.dumps(spec, sort_keys=True))


@pytest.mark.parametrize(
    "new, said",
    [
        ({recorded(stage_settings={"learning_rate": 5e-4})}, "xe.learning_rate 0.0003 -> 0.0005"),
        ({recorded(stage_settings={"schedule": {"kind": "step"}})}, 'xe.schedule.kind "noam" -> "step"'),
        ({recorded(stage_settings={"clip": None})}, "xe.clip (new) null"),
        ({recorded(model_settings={"heads": 4})}, "model.heads 8 -> 4"),
        ({recorded(evaluation={"beam": 5})}, 'evaluation (new) {"beam": 5}'),
    ],
)
def test_a_changed_parameter_is_named_by_its_key(new, said):
    assert changes({recorded()}, new, "xe") == said


def test_changed_code_and_plain_parameters_are_told_apart():
    assert changes({repr("0123456789abcdef")}, {repr("fedcba9876543210")}, "") == "changed code"
    assert changes({"10"}, {"12"}, "") == "10 -> 12"
    assert changes({"'gone'"}, set(), "") == "its parameters"
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_a_job_is_called_by_the_label_of_its_run():
    assert label("train_xe", RUN, LABELS) == "ZoDIAC seed 2"
    assert label("evaluate", {**RUN, "stage": "xe", "seed": "1, 2"}, LABELS) == "ZoDIAC seeds 1, 2 xe"
    assert label("evaluate", {**RUN, "stage": "scst"}, LABELS) == "ZoDIAC (long) seed 2 scst"
    assert label("table", {"table": "demo"}, LABELS) == "demo"
    assert label("summary", {}, LABELS) == ""
    together = {key: value for key, value in RUN.items() if key != "seed"} | {"seeds": "1+2", "stage": "scst"}
    assert label("evaluate_ensemble", together, LABELS) == "ZoDIAC (long) ensemble 1+2 scst"
    assert label("train_xe", {**RUN, "subset": "pair_5"}, LABELS) == "coco/pair_5/grid/zodiac@demo/xe seed 2"


@pytest.fixture
def told(monkeypatch, tmp_path, capsys):
    """Return a function that hands Snakemake's words to the messages, and returns all that a user saw by then."""
    monkeypatch.setenv(FAILURES_VARIABLE, str(tmp_path))
    settings = SimpleNamespace(dryrun=False, stdout=False)
    own = logging.StreamHandler()
    workflow = SimpleNamespace(output_settings=settings, start_time=datetime.now())
    messages = Messages(workflow, own, lambda: LABELS)
    shown = []

    def tell(event, text="", **said):
        record = logging.LogRecord("snakemake", logging.INFO, "", 0, text, (), None)
        record.__dict__ |= {"event": event, **said}
        own.stream = sys.stderr
        messages.handle(record)
        shown.append(capsys.readouterr().err)
        return "".join(shown)

    return tell


def begin(tell):
    return tell(
        LogEvent.JOB_INFO, jobid=7, rule_name="train_xe", wildcards=RUN, output=["model.safetensors"], shellcmd=TRAIN
    )


def test_a_job_says_when_it_begins_and_ends(told):
    begin(told)
    told(LogEvent.JOB_FINISHED, "Finished jobid: 7 (Rule: train_xe)", job_id=7)
    told(None, "Select jobs to execute...")
    told(LogEvent.JOB_STARTED, "Execute 1 jobs...")
    said = told(LogEvent.PROGRESS, done=3, total=9)
    assert re.sub(r"\d\d:\d\d:\d\d", "CLOCK", said) == (
        "CLOCK begin   train_xe ZoDIAC seed 2\nCLOCK end     train_xe ZoDIAC seed 2, 0 s (3 of 9 jobs)\n"
    )


def test_the_end_says_how_long_each_stage_took(told, monkeypatch):
    clock = iter([0.0, 20.0, 20.0, 30.0, 95.0, 95.0])
    monkeypatch.setattr("workflow.messages.time.monotonic", lambda: next(clock))
    for _ in range(2):
        begin(told)
        told(LogEvent.JOB_FINISHED, "Finished jobid: 7 (Rule: train_xe)", job_id=7)
        told(LogEvent.PROGRESS, done=3, total=9)
    lines = told(None, "Elapsed time: 90 seconds").splitlines()[-4:]
    assert [line.split() for line in lines[:2]] == [[], ["stage", "jobs", "together"]]
    assert lines[2].split(maxsplit=2) == ["train_xe", "2", "1 min 25 s"] and lines[3].endswith(" in all")


def test_a_workflow_that_was_stopped_speaks_of_no_failure(told):
    assert told(LogEvent.ERROR, "WorkflowError:\nAt least one job did not complete successfully.") == ""


def test_what_is_not_known_to_be_noise_is_passed_on(told):
    assert told(None, "Unlocked working directory.") == "Unlocked working directory.\n"
    assert told(LogEvent.ERROR, "MissingInputException: ...").endswith("MissingInputException: ...\n")


@pytest.mark.parametrize(
    "left, status, said",
    [
        ("the loss is nan", "returned non-zero exit status 2.", "the loss is nan"),
        (None, "returned non-zero exit status 137.", "its command exited with status 137; see its messages above"),
        (None, "died with <Signals.SIGKILL: 9>.", "killed by SIGKILL (out of memory?)"),
        (None, None, "no reason was recorded; see the messages above"),
    ],
)
def test_a_failed_job_says_why_and_again_at_the_end(told, tmp_path, left, status, said):
    file = failure_file(tmp_path, ["train", "--stage", "xe", "--spec", '{"a": 1}', "--out", "a folder"])
    file.write_text("of an earlier try")
    begin(told)
    assert not file.exists()
    if left:
        file.write_text(left)
    if status:
        told(LogEvent.ERROR, f"RuleException:\nCalledProcessError:\nCommand '{TRAIN}' {status}", exception="X")
    told(LogEvent.JOB_ERROR, rule_name="train_xe", jobid=7, shellcmd=TRAIN, log=[])
    shown = told(LogEvent.ERROR, "WorkflowError:\nAt least one job did not complete successfully.")
    lines = shown.splitlines()
    assert lines[1].endswith(f"FAILED  train_xe ZoDIAC seed 2, 0 s: {said}")
    assert lines[2].startswith("recap: a job failed;")
    assert lines[3:] == [f"  train_xe ZoDIAC seed 2: {said}"]


def test_a_real_failure_is_one_sentence_twice_and_its_command_stands_in_the_log(workspace):
    inputs = workspace.folder / "inputs"
    (inputs / "photos").mkdir(parents=True)
    (inputs / "captions.json").write_text("{")
    workspace.change("tiny.yaml", "[tiny]", "[photos]")
    done = workspace.snakemake("data_all", config=("inputs=inputs",))
    assert done.returncode == 1
    said = done.stderr
    assert len(re.findall(r"corpus tiny_photos(?:, \d+ s)?: inputs/captions\.json: ", said)) == 2
    assert not re.search("--spec|RuleException|Traceback|Select jobs|CalledProcessError", said)
    (log,) = (workspace.folder / ".snakemake" / "log").glob("*.log")
    assert "--spec" in log.read_text()
