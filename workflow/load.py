"""Loads the plan of a profile, writes what commands read beside specs, and hands the plan to the
jobs of a cluster."""

from __future__ import annotations

import os
import pickle
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import yaml
from workflow.internals import Due

from recap.core.errors import RecapError
from recap.core.files import atomic_path, write_text
from recap.core.log import log
from recap.core.process import LOCK_FOLDER
from recap.data.files.download import Transfer
from recap.metrics.spice import SPICE_MODELS, install_spice_models, spice_models_missing
from recap.models.check import check_models
from recap.plan import records
from recap.plan.data_jobs import pictures
from recap.plan.job import Jobs
from recap.plan.jobs import plan_jobs
from recap.plan.outside import MissingFile, acquisition_jobs, line, missing_files, refuse_missing
from recap.plan.plan import Plan
from recap.plan.profiles import load_plan
from recap.plan.run import setting_names
from recap.plan.source import DIGESTS, Key
from recap.plan.specs import execution
from recap.plan.stores import used_stores
from recap.plan.studies import refuse_without_responses
from recap.settings.versions import list_of, read_versions

# names the file of `pickle_plan`; Slurm gives jobs the environment of the submitting process
VARIABLE = "RECAP_PLANNED"
# On Slurm, a job that continues where it was gets SIGTERM some time before its limit. Slurm's own
# comes KillWait (30 s) before SIGKILL, too short for a large batch. In a profile, `--set-resources`
# of the command line would take its place.
STOPPED_BEFORE_LIMIT = {"slurm_extra": "--signal=TERM@180"}


class Planned(NamedTuple):
    """What every job of a workflow needs to know of its plan."""

    plan: Plan
    jobs: Jobs
    acquisitions: Jobs  # of missing outside files
    digests: dict[Key, str]  # of source


def load(config: Mapping[str, Any], files: Sequence[str]) -> Planned:
    """Return the plan of a profile, if it can be made here: models are built, files are there."""
    try:
        plan = load_plan(config, files)
        jobs = plan_jobs(plan)
        check_models(plan, Path(plan.files.work) / "checked_models.json")
        needed = missing_files(plan, jobs)
        refuse_missing(needed, plan.profile)
        refuse_without_responses(plan, jobs)
    except RecapError as error:
        refuse(str(error))
    _prepare(plan, jobs, needed)
    return Planned(plan, jobs, Jobs(acquisition_jobs(plan, needed), plan.files), {})


def _prepare(plan: Plan, jobs: Jobs, needed: Sequence[MissingFile]) -> None:
    """Say what will be acquired, and write what jobs read beside specs."""
    for each in needed:
        print(f"recap: to be acquired: {line(each)}", file=sys.stderr)
    lists = {each.path for each in needed if each.pictures}
    for job in jobs.with_prefix("corpus"):
        if lists & set(job.outside):
            # a rule fills it, none makes it as a whole; Snakemake wants it there
            for folder in pictures(plan, job.wildcards["dataset"]):
                Path(folder).mkdir(parents=True, exist_ok=True)
    write_beside_specs(plan, Path(plan.files.work))


def refuse(sentence: str) -> NoReturn:
    """Stop with one sentence, as the `recap` commands do.

    Snakemake would add where its own code stood.
    """
    sys.exit(f"recap: {sentence}")


# A job on a cluster begins Snakemake twice more. Without this file both
# would read and check all parameters and follow the whole source again,
# for one command. The folder is locked: no other workflow has jobs here.
def pickle_plan(planned: Planned) -> None:
    """Write what was planned, and name the file to the jobs that are submitted from now on."""
    file = (LOCK_FOLDER / "planned").absolute()
    with atomic_path(file) as part:
        part.write_bytes(pickle.dumps(planned._replace(digests=dict(DIGESTS))))
    os.environ[VARIABLE] = str(file)


def load_pickled_plan() -> Planned | None:
    """Return what the main process of this job planned; None if it wrote no file."""
    if VARIABLE not in os.environ:
        return None
    # the main process of this user wrote it
    planned: Planned = pickle.loads(Path(os.environ[VARIABLE]).read_bytes())
    DIGESTS.update(planned.digests)
    return planned


def install_spice(due: Iterable[Due], planned: Planned) -> None:
    """Fetch SPICE's models where the profile allows it and an evaluation needs them."""
    # They belong to the environment, so no rule makes them.
    # That SPICE is not run is said now and not after weeks.
    profile = planned.plan.profile
    wanted = False
    for each in due:
        if each.rule in ("evaluate", "evaluate_ensemble"):
            spec = planned.jobs.job(each.rule, each.wildcards).spec
            wanted = wanted or "SPICE" in spec.evaluation.metrics
    versions = list_of(planned.plan.params)
    if not (wanted and profile.fetch and versions.exists()):
        return
    listed = read_versions(versions)
    if set(SPICE_MODELS) <= listed.keys() and spice_models_missing():
        try:
            install_spice_models(listed, into=Path(profile.inputs), transfer=Transfer())
        except RecapError as error:
            log.error(f"recap: SPICE will not run: {error}")


def write_beside_specs(plan: Plan, work: Path) -> None:
    """Write `inputs`, a hint for commands, and how jobs of recipes and features are computed."""
    named: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for series, label in plan.labels().items():
        named[setting_names(series.rpartition("/")[0])["recipe"]][series] = label
    values: dict[str, Any] = {}
    for name in {run.recipe for run in [*plan.scored, *plan.trained]}:
        values[name] = {**execution(plan, name).model_dump(mode="json"), "labels": named[name]}
    for store in used_stores(plan):
        values[f"features/{store.features}"] = store.settings.model_dump(
            mode="json", include=set(store.settings.EXECUTION)
        )
    texts = {records.INPUTS: f"{plan.profile.inputs}\n"}
    for name, each in values.items():
        texts[f"execution/{name}.yaml"] = yaml.safe_dump(each, sort_keys=False, allow_unicode=True)
    for name, text in texts.items():
        if not (work / name).exists() or (work / name).read_text(encoding="utf-8") != text:
            write_text(work / name, text)
