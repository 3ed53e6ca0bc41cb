"""What Snakemake is about to run, as text: which runs, and what changed since they were made.

Snakemake knows why a job must run; here its reasons become one line per job, with the key of each changed parameter.
"""

from __future__ import annotations

import ast
import json
import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import snakemake
from workflow.records import read_record

from recap.core.errors import listed
from recap.core.hashing import differences
from recap.plan.labels import job_label

CHECKED = ("9.27.",)  # versions of Snakemake whose reasons `due_jobs` can read
DIGEST = re.compile(r"[0-9a-f]{16}")  # what `code_digest` returns
NEW = "not made yet"
_TOLERANCE = 60.0  # seconds that clocks of machines may differ
KEYS = {"model_settings": "model"}  # keys of a spec by the file that a user edits


class Due(NamedTuple):
    """A job that is due."""

    rule: str
    wildcards: dict[str, str]
    reason: str


def due_jobs(workflow: Any) -> Iterator[Due]:
    """Yield the jobs that Snakemake is about to run, in the order of the rules, and why.

    Snakemake's plan is private. Its public events give a reason when a job begins, as a sentence that holds all
    parameters, old and new. With a version that was not checked, no job is named before it begins.
    """
    if not snakemake.__version__.startswith(CHECKED):
        return
    dag, rules = workflow.dag, [rule.name for rule in workflow.rules]
    for job in sorted(dag.needrun_jobs(exclude_finished=False), key=lambda job: rules.index(job.rule.name)):
        reason = dag.reason(job)
        files = list(map(str, job.output))
        changed = []
        if reason.incomplete_output:
            changed.append("was interrupted")
        if reason.params_changed:
            stage = job.rule.name.removeprefix("train_")
            changed.append(changes(reason.params_changed.only_old, reason.params_changed.only_new, stage))
        if reason.code_changed:
            changed.append("the command of its rule changed")
        if reason.input_changed:
            changed.append(other_inputs(set(read_record(files[0]).get("input") or []), set(map(str, job.input))))
        if reason.software_stack_changed:
            changed.append("its software environment changed")
        if updated := sorted(map(str, reason.updated_input - reason.updated_input_run)):
            changed.append(f"{listed(updated)} changed")
        makers = sorted({before.rule.name for before in dag.dependencies[job] if dag.needrun(before)})
        if reason.forced:
            text = "forced"
        elif missing := sorted(map(str, reason.missing_output)):
            text = f"{listed(missing)} is gone" if any(map(read_record, files)) else NEW
        else:
            text = "; ".join(changed) or (f"after {listed(makers)}" if makers else str(reason))
        yield Due(job.rule.name, dict(job.wildcards_dict), text)


def dated_later(workflow: Any) -> str:
    """Return an input of a due job that is dated after now, or ""; Snakemake would remove what is made from it."""
    if not snakemake.__version__.startswith(CHECKED):
        return ""
    jobs = list(workflow.dag.needrun_jobs(exclude_finished=False))
    files = {str(file) for job in jobs for file in job.input} - {str(file) for job in jobs for file in job.output}
    later = time.time() + _TOLERANCE
    return min((file for file in files if os.path.lexists(file) and os.lstat(file).st_mtime > later), default="")


def due_runs(jobs: Iterable[Due], labels: Mapping[str, str]) -> list[str]:
    """Return the lines that name every run that is due, and every other job that is due because something changed."""
    seeds = defaultdict(list)  # of jobs that differ only in their seed
    rules: dict[str, int] = {}  # in their order
    for rule, wildcards, reason in jobs:
        rules.setdefault(rule, len(rules))
        if "model" in wildcards or not (reason == NEW or reason.startswith("after ")):
            key = (rule, tuple(sorted((k, v) for k, v in wildcards.items() if k != "seed")), reason)
            seeds[key].append(wildcards.get("seed"))
    rows = []
    for (rule, rest, reason), numbers in sorted(seeds.items(), key=lambda item: (rules[item[0][0]], item[0])):
        named = ", ".join(map(str, sorted({int(seed) for seed in numbers if seed is not None})))
        wildcards = {**dict(rest), **({"seed": named} if named else {})}
        rows.append((rule, job_label(rule, wildcards, labels), reason))
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    return [f"{rule:{widths[0]}}  {name:{widths[1]}}  {reason}" for rule, name, reason in rows]


def changes(old: set[str], new: set[str], stage: str) -> str:
    """Return which parameters changed: ``xe.learning_rate 0.0003 -> 0.0005``, ``changed code``.

    Parameters are as Snakemake records them (their `repr`); the stage names the settings of a training.
    """
    before, after = [[ast.literal_eval(text) for text in sorted(side)] for side in (old, new)]
    found = []
    specs = [[spec for value in side if (spec := as_spec(value)) is not None] for side in (before, after)]
    for first, second in zip(*specs, strict=False):
        found += differences(first, second, {**KEYS, "stage_settings": stage})
    if any(is_digest(value) for value in before + after):
        found.append("changed code")
    rest = [[v for v in side if as_spec(v) is None and not is_digest(v)] for side in (before, after)]
    found += [f"{first!r} -> {second!r}" for first, second in zip(*rest, strict=False)]
    return listed(found) or "its parameters"


def as_spec(value: Any) -> dict[str, Any] | None:
    """Return the mapping that a parameter is the JSON of, or None."""
    if not (isinstance(value, str) and value.startswith("{")):
        return None
    spec: dict[str, Any] = json.loads(value)
    return spec


def is_digest(value: Any) -> bool:
    """Return whether a parameter is the digest of the source that a job runs."""
    return isinstance(value, str) and DIGEST.fullmatch(value) is not None


def other_inputs(old: set[str], new: set[str]) -> str:
    """Return which inputs of a job are new, and which it no longer has."""
    found = [f"new input {listed(sorted(new - old))}"] if new - old else []
    return "; ".join([*found, *([f"no longer input {listed(sorted(old - new))}"] if old - new else [])])
