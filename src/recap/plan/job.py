"""A job of the workflow, complete: what it reads and makes, and all that decides its result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_core import to_jsonable_python

from recap.core.errors import UnknownName
from recap.plan.files import Files

Inputs = dict[str, list[str]]


@dataclass(frozen=True)
class EntryPoints:
    """Where the source of a job begins: its digest decides whether the job reruns."""

    starts: tuple[str, ...]  #: ``module:object``, or whole modules
    without: tuple[str, ...] = ()  #: modules that are not followed
    templates: bool = False  #: whether the templates of pages and tables belong to it


@dataclass(frozen=True)
class Job:
    """One job: a rule with values for its wildcards.

    All jobs of a rule have inputs and params of the same names. `Jobs` adds the outputs of rules
    that have patterns.
    """

    rule: str
    wildcards: dict[str, str] = field(default_factory=dict)
    inputs: Inputs = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    spec: Any = None  #: what decides its result: settings, or plain JSON values
    code: EntryPoints | None = None
    params: dict[str, Any] = field(default_factory=dict)  #: others: a changed one reruns it
    threads: int = 1
    gpus: int = 0
    #: outside files and names of the hub that it reads, and the parameter file that names them
    outside: tuple[str, ...] = ()
    named_by: str = ""


class Jobs:
    """The jobs of a plan, each once, in the order in which they were planned."""

    def __init__(self, jobs: Iterable[Job], files: Files) -> None:
        self._jobs: dict[tuple[str, frozenset[tuple[str, str]]], Job] = {}
        for job in jobs:
            outputs = job.outputs or files.of(job.rule, **job.wildcards)
            key = (job.rule, frozenset(job.wildcards.items()))
            self._jobs[key] = replace(job, outputs=outputs)

    def __iter__(self) -> Iterator[Job]:
        return iter(self._jobs.values())

    def of(self, *rules: str) -> list[Job]:
        """Return the jobs of some rules."""
        return [job for job in self if job.rule in rules]

    def with_prefix(self, text: str) -> list[Job]:
        """Return the jobs of rules whose names begin with a text."""
        return [job for job in self if job.rule.startswith(text)]

    def job(self, rule: str, wildcards: Mapping[str, str]) -> Job:
        """Return the job of a rule with these wildcards."""
        key = (rule, frozenset(wildcards.items()))
        if key not in self._jobs:
            names = ", ".join(f"{name}={value}" for name, value in wildcards.items())
            raise UnknownName(f"{rule}: no table of this profile plans {names or 'it'}")
        return self._jobs[key]


def spec_values(spec: Any) -> Any:
    """Return a spec as plain JSON values."""
    return to_jsonable_python(spec, by_alias=False)


def outputs_of(jobs: Iterable[Job]) -> list[str]:
    """Return the files that jobs make."""
    files: list[str] = []
    for job in jobs:
        files += job.outputs.values()
    return files
