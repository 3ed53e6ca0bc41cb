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
from workflow.records import read_record

from recap.core.documents import differences
from recap.core.errors import aligned, listed
from recap.plan.run import job_label

CHECKED = ("9.27.",)  # versions of Snakemake whose reasons `due_jobs` can read
NEW = "not made yet"
_DIGEST = re.compile(r"[0-9a-f]{16}")  # what `code_digest` returns
_TOLERANCE = 60.0  # seconds that clocks of machines may differ
_KEYS = {"model_settings": "model"}  # keys of a spec by the file that a user edits


class Due(NamedTuple):
    """A job that is due."""

    rule: str
    wildcards: dict[str, str]
    reason: str


def due_jobs(workflow: Any) -> Iterator[Due]:
    """Yield the jobs that Snakemake is about to run, in the order of the rules, and why."""
    rules = [rule.name for rule in workflow.rules]
    for job in sorted(_needed(workflow), key=lambda job: rules.index(job.rule.name)):
        yield Due(job.rule.name, dict(job.wildcards_dict), _reason(workflow.dag, job))


def _needed(workflow: Any) -> list[Any]:
    known = snakemake.__version__.startswith(CHECKED)
    return list(workflow.dag.needrun_jobs(exclude_finished=False)) if known else []


def _reason(dag: Any, job: Any) -> str:
    reason = dag.reason(job)
    files = list(map(str, job.output))
    if reason.forced:
        return "forced"
    if missing := sorted(map(str, reason.missing_output)):
        return f"{listed(missing)} is gone" if any(map(read_record, files)) else NEW
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
        old, new = set(read_record(files[0]).get("input") or []), set(map(str, job.input))
        changed += [f"new input {listed(sorted(new - old))}"] if new - old else []
        changed += [f"no longer input {listed(sorted(old - new))}"] if old - new else []
    if reason.software_stack_changed:
        changed.append("its software environment changed")
    if updated := sorted(map(str, reason.updated_input - reason.updated_input_run)):
        changed.append(f"{listed(updated)} changed")
    makers = sorted({before.rule.name for before in dag.dependencies[job] if dag.needrun(before)})
    return "; ".join(changed) or (f"after {listed(makers)}" if makers else str(reason))


def dated_later(workflow: Any) -> str:
    """Return an input of a due job that is dated after now, or "".

    Snakemake would remove what is made from it.
    """
    jobs = _needed(workflow)
    files = {str(file) for job in jobs for file in job.input} - {
        str(file) for job in jobs for file in job.output
    }
    later = time.time() + _TOLERANCE
    return min(
        (file for file in files if os.path.lexists(file) and os.lstat(file).st_mtime > later),
        default="",
    )


def due_runs(jobs: Iterable[Due], labels: Mapping[str, str]) -> list[str]:
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
    before, after = [[ast.literal_eval(text) for text in sorted(side)] for side in (old, new)]
    specs, digests, plain = (
        [[v for v in side if _kind(v) == kind] for side in (before, after)] for kind in range(3)
    )
    parts: list[str] = []
    for first, second in zip(*specs, strict=False):
        parts += differences(
            json.loads(first), json.loads(second), {**_KEYS, "stage_settings": stage}
        )
    if any(digests):
        parts.append("changed code")
    parts += [f"{first!r} -> {second!r}" for first, second in zip(*plain, strict=False)]
    return listed(parts) or "its parameters"


def _kind(value: Any) -> int:
    """Return 0 for a spec's JSON, 1 for the digest of a job's source, 2 for other parameters."""
    if isinstance(value, str) and value.startswith("{"):
        return 0
    return 1 if isinstance(value, str) and _DIGEST.fullmatch(value) else 2
