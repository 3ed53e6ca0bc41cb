"""What Snakemake is about to run, as text: which runs, and what changed since they were made."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from recap.core.documents import differences
from recap.core.errors import aligned, listed
from recap.plan.run import job_label

if TYPE_CHECKING:
    from workflow.internals import Due

NEW = "not made yet"
_DIGEST = re.compile(r"[0-9a-f]{16}")  # what `code_digest` returns
_KEYS = {"model_settings": "model"}  # keys of a spec by the file that a user edits


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
