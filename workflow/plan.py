"""What Snakemake is about to run, as text: which runs, and what changed since they were made.

Snakemake knows why a job must run; here its reasons become one line per job, with the key of each changed parameter.
"""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from recap.core.differences import differences, listed
from recap.plan.labels import row_setting

DIGEST = re.compile(r"[0-9a-f]{16}")  # what `code_digest` returns
NEW = "not made yet"
KEYS = {"model_settings": "model"}  # keys of a spec by the file that a user edits


def plan(workflow: Any, labels: Mapping[str, str]) -> list[str]:
    """Return the lines that name every run that is due, and every other job that is due because something changed."""
    jobs = list(workflow.dag.needrun_jobs())
    seeds = defaultdict(list)  # of jobs that differ only in their seed
    for job in jobs:
        reason = why(job, workflow.dag, workflow.persistence)
        wildcards = job.wildcards_dict
        if "model" in wildcards or not (reason == NEW or reason.startswith("after ")):
            key = (job.rule.name, tuple(sorted((k, v) for k, v in wildcards.items() if k != "seed")), reason)
            seeds[key].append(wildcards.get("seed"))
    order = [rule.name for rule in workflow.rules]
    rows = []
    for (rule, rest, reason), found in sorted(seeds.items(), key=lambda item: (order.index(item[0][0]), item[0])):
        numbers = sorted({int(seed) for seed in found if seed is not None})
        wildcards = {**dict(rest), **({"seed": ", ".join(map(str, numbers))} if numbers else {})}
        rows.append((rule, label(rule, wildcards, labels), reason))
    widths = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    return [f"{rule:{widths[0]}}  {name:{widths[1]}}  {reason}" for rule, name, reason in rows]


def label(rule: str, wildcards: Mapping[str, str], labels: Mapping[str, str]) -> str:
    """Return what a job is for: ``ZoDIAC seed 2``, or the values of its wildcards; empty if it has none.

    Args:
        rule: name of its rule.
        wildcards: of the job.
        labels: of every series of runs.
    """
    seed = wildcards.get("seed", "")
    seeds = f"seed{'s' if ',' in seed else ''} {seed}" if seed else ""
    if "model" not in wildcards:
        names = [value for name, value in wildcards.items() if name != "seed"]
        return " ".join(filter(None, [*names, seeds]))
    stage = wildcards.get("stage")
    series = f"{row_setting(wildcards)}/{stage or rule.removeprefix('train_')}"
    run = labels.get(series, series)  # a file that was asked for by name may be of no table
    together = f"ensemble {wildcards['seeds']}" if "seeds" in wildcards else seeds
    return " ".join(filter(None, [run, together, stage]))


def why(job: Any, dag: Any, persistence: Any) -> str:
    """Return why a job is due, in a few words."""
    reason = dag.reason(job)
    if reason.forced:
        return "forced"
    missing = sorted(map(str, reason.missing_output))
    if missing:
        made = any(persistence.metadata(file) for file in job.output)
        return f"{listed(missing)} is gone" if made else NEW
    stage = job.rule.name.removeprefix("train_")
    found = []
    if reason.incomplete_output:
        found.append("was interrupted")
    if reason.params_changed:
        found.append(changes(reason.params_changed.only_old, reason.params_changed.only_new, stage))
    if reason.code_changed:
        found.append("the command of its rule changed")
    if reason.input_changed:
        found.append(other_inputs(set(persistence.input(job.output[0]) or []), set(map(str, job.input))))
    if reason.software_stack_changed:
        found.append("its software environment changed")
    changed = sorted(map(str, reason.updated_input - reason.updated_input_run))
    if changed:
        found.append(f"{listed(changed)} changed")
    makers = sorted({before.rule.name for before in dag.dependencies[job] if dag.needrun(before)})
    if not found:
        return f"after {listed(makers)}" if makers else str(reason)
    return "; ".join(found)


def changes(old: set[str], new: set[str], stage: str) -> str:
    """Return which parameters changed: ``xe.learning_rate 0.0003 -> 0.0005``, ``changed code``.

    Args:
        old: parameters of the job as Snakemake recorded them (their `repr`) that it no longer has.
        new: those that it has now and did not have.
        stage: name to print for the settings of a training stage.
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
