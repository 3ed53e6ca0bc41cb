"""What a user reads while Snakemake works."""

import json
import logging
import os
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake_interface_logger_plugins.common import LogEvent
from workflow.internals import input_of_the_future
from workflow.reasons import changes

import snakemake_logger_plugin_recap as messages
from recap.core.errors import listed
from recap.core.log import FAILURES_VARIABLE, failure_file
from recap.plan.run import job_label

RUN = {
    "dataset": "coco",
    "subset": "full",
    "features": "grid",
    "model": "zodiac",
    "recipe": "demo",
    "seed": "2",
}
LABELS = {
    "coco/full/grid/zodiac@demo/xe": "ZoDIAC",
    "coco/full/grid/zodiac@demo/scst": "ZoDIAC (long)",
}
TRAIN = (
    "set -euo pipefail;  /my/python -m recap train --stage xe --spec '{\"a\": 1}' --out 'a folder'"
)


def recorded(**changed):
    """Return parameters as Snakemake records them."""
    spec = {
        "stage_settings": {"learning_rate": 0.0003, "schedule": {"kind": "noam"}},
        "model_settings": {"heads": 8},
    }
    for key, value in changed.items():
        spec[key] = {**spec.get(key, {}), **value}
    return repr(json.dumps(spec, sort_keys=True))


@pytest.mark.parametrize(
    "new, said",
    [
        ({recorded(stage_settings={"learning_rate": 5e-4})}, "xe.learning_rate 0.0003 -> 0.0005"),
        ({recorded(stage_settings={"clip": None})}, "xe.clip (new) null"),
        ({recorded(model_settings={"heads": 4})}, "model.heads 8 -> 4"),
    ],
)
def test_a_changed_parameter_is_named_by_its_key(new, said):
    assert changes({recorded()}, new, "xe") == said


def test_of_a_long_text_that_changed_both_sides_show_where_they_differ():
    text = "one sentence after another, " * 10
    said = changes(
        {recorded(model_settings={"note": text})},
        {recorded(model_settings={"note": text + "new"})},
        "xe",
    )
    old, new = said.removeprefix("model.note ").split(" -> ")
    assert old.endswith('another, "') and new.endswith('another, new"')
    longer = {recorded(model_settings={"note": "other" + text})}
    said = changes({recorded(model_settings={"note": text})}, longer, "xe")
    assert (
        said.startswith('model.note "one sentence')
        and '-> "otherone sentence' in said
        and len(said) < 200
    )


def test_changed_code_and_plain_parameters_are_told_apart():
    assert changes({repr("0123456789abcdef")}, {repr("fedcba9876543210")}, "") == "changed code"
    assert changes({"10"}, {"12"}, "") == "10 -> 12"
    assert changes({"'gone'"}, set(), "") == "its parameters"
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_an_input_of_tomorrow_is_named_before_its_job(tmp_path):
    files = [tmp_path / name for name in ("photos", "store", "made")]
    for file, days in zip(files, (0, 1, 1), strict=True):
        file.touch()
        os.utime(file, (time.time() + 86400 * days,) * 2)
    photos, store, made = files
    jobs = [SimpleNamespace(input=[photos, tmp_path / "none"], output=[made])]
    workflow = SimpleNamespace(dag=SimpleNamespace(needrun_jobs=lambda exclude_finished: jobs))
    jobs.append(SimpleNamespace(input=[made], output=[]))
    assert input_of_the_future(workflow) == ""
    jobs.append(SimpleNamespace(input=[store], output=[]))
    assert input_of_the_future(workflow) == str(store)


def test_a_job_is_called_by_the_label_of_its_run():
    assert job_label("train_xe", RUN, LABELS) == "ZoDIAC seed 2"
    assert (
        job_label("evaluate", {**RUN, "stage": "xe", "seed": "1, 2"}, LABELS)
        == "ZoDIAC seeds 1, 2 xe"
    )
    assert job_label("evaluate", {**RUN, "stage": "scst"}, LABELS) == "ZoDIAC (long) seed 2 scst"
    assert job_label("table", {"table": "demo"}, LABELS) == "demo"
    assert job_label("summary", {}, LABELS) == ""
    together = {key: value for key, value in RUN.items() if key != "seed"} | {
        "seeds": "1+2",
        "stage": "scst",
    }
    assert job_label("evaluate_ensemble", together, LABELS) == "ZoDIAC (long) ensemble 1+2 scst"
    assert (
        job_label("train_xe", {**RUN, "subset": "pair_5"}, LABELS)
        == "coco/pair_5/grid/zodiac@demo/xe seed 2"
    )


class Events:
    """Hands Snakemake's events to the messages, and returns what a user saw."""

    def __init__(self, capsys, **settings):
        self.capsys = capsys
        off = dict.fromkeys(
            ("quiet", "verbose", "printshellcmds", "debug_dag", "dryrun", "stdout"), False
        )
        self.handler = messages.LogHandler(SimpleNamespace(**(off | settings)), None)
        self.shown = ""

    def __call__(self, event, text="", level=logging.INFO, **fields):
        record = logging.LogRecord("snakemake", level, "", 0, text, (), None)
        record.__dict__ |= {"event": event, **fields}
        self.handler.handle(record)
        self.shown += self.capsys.readouterr().err
        return self.shown

    def end(self):
        self.handler.close()
        self.shown += self.capsys.readouterr().err
        return self.shown


@pytest.fixture
def told(monkeypatch, tmp_path, capsys):
    """A run that has begun."""
    monkeypatch.setenv(FAILURES_VARIABLE, str(tmp_path))
    monkeypatch.setattr(messages, "_labels", LABELS)
    events = Events(capsys)
    events(LogEvent.WORKFLOW_STARTED, "Workflow has started!")
    return events


def begin(tell):
    return tell(
        LogEvent.JOB_INFO,
        jobid=7,
        rule_name="train_xe",
        wildcards=RUN,
        output=["model.safetensors"],
        shellcmd=TRAIN,
    )


def test_a_job_says_when_it_begins_and_ends(told):
    begin(told)
    told(LogEvent.JOB_FINISHED, "Finished jobid: 7 (Rule: train_xe)", job_id=7)
    told(None, "Select jobs to execute...")
    told(LogEvent.JOB_STARTED, "Execute 1 jobs...")
    said = told(LogEvent.PROGRESS, done=3, total=9)
    assert re.sub(r"\d\d:\d\d:\d\d", "CLOCK", said) == (
        "CLOCK begin   train_xe ZoDIAC seed 2\nCLOCK end     train_xe ZoDIAC seed 2, 0 s (3 of 9 "
        "jobs)\n"
    )


def test_a_workflow_that_was_stopped_speaks_of_no_failure(told, monkeypatch):
    monkeypatch.setattr(messages, "_muted", [True])
    told(LogEvent.JOB_ERROR, rule_name="train_xe", jobid=7, shellcmd=TRAIN, log=[])
    told(LogEvent.ERROR, "At least one job failed", level=logging.ERROR, exception="WorkflowError")
    assert told.end() == ""


@pytest.mark.parametrize(
    "left, reason", [("the loss is nan", "the loss is nan"), (None, "killed, or out of memory?")]
)
def test_a_failed_job_says_why_and_again_at_the_end(told, tmp_path, left, reason):
    file = failure_file(
        tmp_path, ["train", "--stage", "xe", "--spec", '{"a": 1}', "--out", "a folder"]
    )
    file.write_text("of an earlier try")
    begin(told)
    assert not file.exists()
    if left:
        file.write_text(left)
    told(LogEvent.ERROR, "died with SIGKILL", level=logging.ERROR, exception="RuleException")
    told(LogEvent.JOB_ERROR, rule_name="train_xe", jobid=7, shellcmd=TRAIN, log=[])
    told(None, "Exiting because a job execution failed.", level=logging.ERROR)
    told(LogEvent.ERROR, "At least one job failed", level=logging.ERROR, exception="WorkflowError")
    lines = told.end().splitlines()
    assert lines[1].endswith(f"FAILED  train_xe ZoDIAC seed 2, 0 s: {reason}")
    # Without a reason, Snakemake's words are all there is.
    assert lines[2:-2] == ([] if left else ["died with SIGKILL"])
    assert lines[-2].startswith("recap: a job failed;")
    assert lines[-1] == f"  train_xe ZoDIAC seed 2: {reason}"


def test_a_job_that_no_command_of_ours_ended_says_what_the_cluster_says(told):
    begin(told)
    logs, job = ["train.log", str(Path.cwd() / "slurm_logs/6.log")], {"external_jobid": "6"}
    said = "SLURM-job '6' failed: FAILED. See the log.\n"
    told(
        LogEvent.JOB_ERROR,
        rule_name="train_xe",
        rule_msg=said,
        jobid=7,
        shellcmd=TRAIN,
        log=logs,
        aux=job,
    )
    assert told.end().splitlines()[-1].endswith(f"2: {said.strip()} Its log: slurm_logs/6.log")


def test_a_job_whose_next_attempt_succeeds_has_not_failed_at_the_end(told):
    begin(told)
    told(LogEvent.JOB_ERROR, rule_name="train_xe", jobid=7, shellcmd=TRAIN, log=[])
    begin(told)
    told(LogEvent.JOB_FINISHED, "Finished jobid: 7 (Rule: train_xe)", job_id=7)
    said = told.end()
    assert "FAILED  train_xe ZoDIAC seed 2" in said and "failed;" not in said and " in all" in said


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
