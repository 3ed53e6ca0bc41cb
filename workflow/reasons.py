"""What Snakemake is about to run, as text: which runs, and what changed since they were made.

Its plan is private; its public events say why only when a job begins, and with all parameters. With
a version that was not checked, no job is named before it begins.
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
from workflow.metadata import read_record

from recap.core.documents import differences
from recap.core.errors import aligned, listed
from recap.plan.run import job_label

CHECKED = ("9.27.",)  # versions of Snakemake whose reasons `pending_jobs` can read
NEW = "not made yet"
_DIGEST = re.compile(r"[0-9a-f]{16}")  # what `code_digest` returns
_TOLERANCE = 60.0  # seconds that clocks of machines may differ
_KEYS = {"model_settings": "model"}  # keys of a spec by the file that a user edits


class Due(NamedTuple):
    """A job that is due."""

    rule: str
    wildcards: dict[str, str]
    reason: str


def pending_jobs(workflow: Any) -> Iterator[Due]:
    """Yield the jobs that Snakemake is about to run, in the order of the rules, and why."""
    rules = [rule.name for rule in workflow.rules]
    for job in sorted(_needed(workflow), key=lambda job: rules.index(job.rule.name)):
        yield Due(job.rule.name, dict(job.wildcards_dict), _reason(workflow.dag, job))


def _needed(workflow: Any) -> list[Any]:
    known = snakemake.__version__.startswith(CHECKED)
    return list(workflow.dag.needrun_jobs(exclude_finished=False)) if known else []


def _reason(dag: Any, job: Any) -> str:
    reason = dag.reason(job)
    if reason.forced:
        return "forced"
    missing = sorted(map(str, reason.missing_output))
    if missing:
        was_made = any(read_record(str(file)) for file in job.output)
        return f"{listed(missing)} is gone" if was_made else NEW
    changed = _changed(reason, job)
    if changed:
        return "; ".join(changed)
    makers = sorted({before.rule.name for before in dag.dependencies[job] if dag.needrun(before)})
    return f"after {listed(makers)}" if makers else str(reason)


def _changed(reason: Any, job: Any) -> list[str]:
    """Return what is no longer as it was when a job's outputs were made."""
    changed = []
    if reason.incomplete_output:
        changed.append("was interrupted")
    if reason.params_changed:
        stage = job.rule.name.removeprefix("train_")
        changed.append(
            changes(reason.params_changed.only_old, reason.params_changed.only_new, stage)
        )
    if reason.code_changed:
        changed.append("the command of its rule changed")
    if reason.input_changed:
        changed += _changed_inputs(job)
    if reason.software_stack_changed:
        changed.append("its software environment changed")
    updated = sorted(map(str, reason.updated_input - reason.updated_input_run))
    if updated:
        changed.append(f"{listed(updated)} changed")
    return changed


def _changed_inputs(job: Any) -> list[str]:
    old = set(read_record(str(job.output[0])).get("input") or [])
    new = set(map(str, job.input))
    changed = []
    if new - old:
        changed.append(f"new input {listed(sorted(new - old))}")
    if old - new:
        changed.append(f"no longer input {listed(sorted(old - new))}")
    return changed


def input_of_the_future(workflow: Any) -> str:
    """Return an input of a due job that is dated after now, or "".

    Snakemake would remove what is made from it.
    """
    inputs = set[str]()
    outputs = set[str]()
    for job in _needed(workflow):
        inputs.update(map(str, job.input))
        outputs.update(map(str, job.output))
    later = time.time() + _TOLERANCE
    for file in sorted(inputs - outputs):
        if os.path.lexists(file) and os.lstat(file).st_mtime > later:
            return file
    return ""


def pending_runs_text(jobs: Iterable[Due], labels: Mapping[str, str]) -> list[str]:
    """Return lines that name every due run, and every other job due because of a change."""
    seeds = defaultdict(list)  # of jobs that differ only in their seed
    rules: dict[str, int] = {}  # in their order
    for rule, wildcards, reason in jobs:
        rules.setdefault(rule, len(rules))
        if "model" in wildcards or not (reason == NEW or reason.startswith("after ")):
            key = (rule, tuple(sorted((k, v) for k, v in wildcards.items() if k != "seed")), reason)
            seeds[key].append(wildcards.get("seed"))
    rows = []
    for (rule, rest, reason), numbers in sorted(
        seeds.items(), key=lambda item: (rules[item[0][0]], item[0])
    ):
        named = ", ".join(map(str, sorted({int(seed) for seed in numbers if seed is not None})))
        wildcards = {**dict(rest), **({"seed": named} if named else {})}
        rows.append((rule, job_label(rule, wildcards, labels), reason))
    return aligned(rows)


def changes(old: set[str], new: set[str], stage: str) -> str:
    """Return changed parameters by `repr`: ``xe.epochs 3 -> 5``, ``changed code``."""
    old_specs, old_digests, old_values = _parameters(old)
    new_specs, new_digests, new_values = _parameters(new)
    parts: list[str] = []
    for first, second in zip(old_specs, new_specs, strict=False):
        parts += differences(
            json.loads(first), json.loads(second), {**_KEYS, "stage_settings": stage}
        )
    if old_digests or new_digests:
        parts.append("changed code")
    for first, second in zip(old_values, new_values, strict=False):
        parts.append(f"{first!r} -> {second!r}")
    return listed(parts) or "its parameters"


def _parameters(texts: set[str]) -> tuple[list[str], list[str], list[Any]]:
    """Return specs as JSON, digests of jobs' sources, and other parameters."""
    specs = []
    digests = []
    others = []
    for text in sorted(texts):
        value = ast.literal_eval(text)
        if isinstance(value, str) and value.startswith("{"):
            specs.append(value)
        elif isinstance(value, str) and _DIGEST.fullmatch(value):
            digests.append(value)
        else:
            others.append(value)
    return specs, digests, others
