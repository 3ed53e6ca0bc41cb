"""Gives rules their inputs, outputs and parameters, by the jobs of the plan."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from snakemake.io import ancient, directory, report, temp
from workflow.internals import read_record

from recap.core.files import write_text
from recap.core.hashing import value_hash
from recap.plan.files import SUBSETS, Files
from recap.plan.job import EntryPoints, Job, Jobs, spec_values
from recap.plan.source import code_digest

# Inputs that are feature stores. They grow when another run needs more images, and what has read
# them is not made again for that: their times do not count.
_STORES = ("features", "boxes", "cells")
# Wildcards that only have values which some job has. Without a limit, several rules would have a
# pattern for one file; of models and recipes there are too many for a regular expression.
_LIMITED = (
    "dataset",
    "features",
    "part",
    "outside",
    "run",
    "algorithm",
    "table",
    "figure",
    "study",
    "file",
    "pictures",
)


class SpecText(str):
    """A spec as JSON, which Snakemake compares as a parameter; commands take its file."""

    file: str  # its name is the hash of its content

    @classmethod
    def written(cls, values: Any, folder: Path) -> SpecText:
        """Return the text of a spec, and write it to its file unless it is there."""
        text = cls(json.dumps(values, sort_keys=True))
        path = folder / f"{value_hash(values)}.json"
        text.file = str(path)
        if not path.exists():
            write_text(path, text + "\n")
        return text


def digest(code: EntryPoints | None) -> str:
    """Return the digest of a job's source, with the templates of pages where they belong to it."""
    assert code is not None  # of jobs that compute
    own = code_digest(*code.starts, without=code.without)
    if not code.templates:
        return own
    templates = sorted(Path(sys.modules["recap"].__file__ or "").parent.glob("*/templates/*"))
    return value_hash([own, *(file.read_text() for file in templates)])[:16]


def one_of(names: Iterable[str]) -> str:
    """Return the regular expression that matches these names and nothing else."""
    return "|".join(map(re.escape, dict.fromkeys(names))) or "(?!)"


class Wiring:
    """Inputs, outputs and parameters by the names of rules, and the job behind their wildcards."""

    def __init__(self, jobs: Jobs, files: Files) -> None:
        self.jobs = jobs
        self.files = files

    def job(self, rule: str, wildcards: Mapping[str, str]) -> Job:
        """Return the job of a rule."""
        return self.jobs.job(rule, dict(wildcards.items()))

    def outputs(self, rule: str, *, category: str = "", temporary: bool = False) -> dict[str, Any]:
        """Return the outputs of a rule with its wildcards; pages and pictures have a category."""
        planned = self.jobs.of(rule)
        patterns = self.files.of(rule)
        if planned and not patterns:  # of a rule that the plan named
            patterns = planned[0].outputs
        outputs: dict[str, Any] = {}
        for name, pattern in patterns.items():
            if rule.startswith("corpus"):  # a rule for each set of files that readers write
                pattern = self.files.product("{dataset}", Path(pattern).name)
            outputs[name] = _limited(pattern, planned)
            if _is_whole_folder(rule, planned, self.files, pattern):
                outputs[name] = directory(pattern)
            if category and pattern.endswith((".html", ".png")):
                outputs[name] = report(outputs[name], category=category)
            if temporary:
                outputs[name] = temp(outputs[name])
        return outputs

    def inputs(self, rule: str, *, old: Sequence[str] = ()) -> Callable[..., dict[str, Any]]:
        """Return the function of a rule's inputs.

        Snakemake runs a job again when an input is newer, but not for those of the names `old`, nor
        for feature stores.
        """

        def of_job(w: Mapping[str, str]) -> dict[str, Any]:
            job = self.job(rule, w)
            inputs = _not_fewer(job) if rule == "used_images" else dict(job.inputs)
            # Notes of extractors, inputs too, change with their numbers. While a store grows,
            # Snakemake compares no parameters of what is behind it, so what was made with others
            # has it as a usual input.
            stores = () if _made_otherwise(job) else _STORES
            for name, files in inputs.items():
                is_store = name in stores and files and files[0].endswith(".h5")
                if name in old or is_store:
                    inputs[name] = ancient(files)
            return inputs

        return of_job

    def params(self, rule: str, *, options: Sequence[str] = ()) -> dict[str, Callable[..., Any]]:
        """Return a rule's parameters: spec, digest of its source, others of its jobs, and
        `--name=FILE` for each input of a name of `options`, which may be none."""
        params: dict[str, Callable[..., Any]] = {}
        planned = self.jobs.of(rule)
        if planned:
            first = planned[0]  # all of a rule have the same names
            if first.spec is not None:
                params["spec"] = self._spec(rule)
            if first.code is not None:
                params["code"] = lambda w: digest(self.job(rule, w).code)
            for name in first.params:
                params[name] = self._param(rule, name)
        for name in options:
            params[name] = _option(name)
        return params

    def _spec(self, rule: str) -> Callable[..., SpecText]:
        folder = Path(self.files.work) / "specs"
        return lambda w: SpecText.written(spec_values(self.job(rule, w).spec), folder)

    def _param(self, rule: str, name: str) -> Callable[..., Any]:
        return lambda w: self.job(rule, w).params[name]


def _option(name: str) -> Callable[..., list[str]]:
    return lambda w, input: [f"--{name}={file}" for file in input[name]]


def _is_whole_folder(rule: str, planned: Sequence[Job], files: Files, path: str) -> bool:
    """Return whether a rule makes all of an archive's folder, not some files of it."""
    return rule.startswith("unpack_") and path == files.outside(planned[0].params["folder"])


def _limited(pattern: str, planned: Sequence[Job]) -> str:
    """Return a pattern whose wildcards have only values that are planned."""
    for name in _LIMITED:
        if f"{{{name}}}" in pattern:
            values = one_of(job.wildcards[name] for job in planned)
            pattern = pattern.replace(f"{{{name}}}", f"{{{name},{values}}}", 1)
    return pattern


def _made_otherwise(job: Job) -> bool:
    """Return whether a job's outputs were made with another spec or other source."""
    recorded = read_record(next(iter(job.outputs.values()))).get("params")
    if recorded is None or job.spec is None or "features" not in job.inputs:
        return False
    own = {repr(json.dumps(spec_values(job.spec), sort_keys=True)), repr(digest(job.code))}
    return not own <= set(recorded)


def _not_fewer(job: Job) -> dict[str, Any]:
    """Return the draws that a list of images was made from if it serves these, too.

    A list that serves more runs stays as it is.
    """
    recorded = read_record(job.outputs["used"]).get("input") or []
    before = set()
    for file in map(Path, recorded):
        if file.parent.parent.name == SUBSETS and file.exists():
            before.add(file)
    if not set(map(Path, job.inputs["subsets"])) <= before:
        return dict(job.inputs)
    corpora = {str(file.parents[2] / "corpus.parquet") for file in before}
    return {
        "corpora": sorted(corpora | set(job.inputs["corpora"])),
        "subsets": sorted(map(str, before)),
    }
