"""What this workflow uses of Snakemake that is private.

Its plan: public events say why only when a job begins, and with all parameters. With a version that
was not checked, no job is named before it begins. Its records of files: no command prints them. The
number of its GPUs: known only on the machine; in public a profile would have to say `resources`.
"""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import snakemake
from workflow.reasons import NEW, changes

from recap.core.errors import listed

CHECKED = ("9.27.",)  # versions of Snakemake whose reasons `pending_jobs` can read
_TOLERANCE = 60.0  # seconds that clocks of machines may differ


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


FORMAT = 6  # of the records that Snakemake 9.27 writes


# Snakemake has no command that gives a file's record, and its classes are private.
def read_record(file: str) -> dict[str, Any]:
    """Return Snakemake's record of a file, by its path as in the rule.

    {} if there is none of the known format.
    """
    # The name is the file's path in base 64, in pieces as long as a name may be.
    name = base64.urlsafe_b64encode(file.encode()).decode()
    length = os.pathconf(".", "PC_NAME_MAX") - 1
    pieces = [name[start : start + length] for start in range(0, len(name), length)]
    path = Path(".snakemake", "metadata", *(f"@{piece}" for piece in pieces[:-1]), pieces[-1])
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return (
        record if isinstance(record, dict) and record.get("record_format_version") == FORMAT else {}
    )


def offer_gpus(workflow: Any, number: int) -> None:
    """Let jobs that ask for a GPU share some, where ``--resources gpu=N`` does not say how many."""
    if "gpu" not in workflow.global_resources:
        workflow.register_resource("gpu", number)
