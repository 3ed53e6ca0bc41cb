"""What the rules share: the plan of a profile, files that commands read, constraints of
wildcards."""

from __future__ import annotations

import json
import os
import pickle
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import yaml

from recap.core.errors import RecapError
from recap.core.files import atomic_path, write_text
from recap.core.hashing import value_hash
from recap.core.process import LOCK_FOLDER
from recap.models.check import check_models
from recap.plan import records
from recap.plan.jobs import execution, planned_claims
from recap.plan.outside import MissingFile, line, missing_files, refuse_missing
from recap.plan.paths import Paths, used_features
from recap.plan.profiles import load_plan
from recap.plan.run import setting_names
from recap.plan.run_plan import RunPlan
from recap.plan.source import DIGESTS, Key
from recap.settings.specs import ClaimsSpec

# names the file of `pass_on`; Slurm gives jobs the environment of the submitting process
VARIABLE = "RECAP_PLANNED"
# On Slurm, a job that continues where it was gets SIGTERM some time before its limit. Slurm's own
# comes KillWait (30 s) before SIGKILL, too short for a large batch. In a profile, `--set-resources`
# of the command line would take its place.
STOPPED_BEFORE_LIMIT = {"slurm_extra": "--signal=TERM@180"}


class Planned(NamedTuple):
    """What every job of a workflow needs to know of its plan."""

    plan: RunPlan
    needed: list[MissingFile]  # the missing outside files, which rules make
    claims: ClaimsSpec | None  # of the papers whose tables are made
    digests: dict[Key, str]  # of source


def load(config: Mapping[str, Any], files: Sequence[str]) -> Planned:
    """Return the plan of a profile, after writing the files that jobs read beside specs."""
    try:
        plan = load_plan(config, files)
        paths = Paths(plan)
        claims = planned_claims(plan)
        check_models(plan, Path(paths.work) / "checked_models.json")
        needed = missing_files(paths)
        refuse_missing(needed, paths)
    except RecapError as error:
        refuse(str(error))
    for each in needed:
        print(f"recap: to be acquired: {line(each)}", file=sys.stderr)
    lists = {each.path for each in needed if each.pictures}
    for name in plan.datasets():
        if lists & {*paths.outside_files("datasets", name)}:
            # a rule fills it, none makes it as a whole; Snakemake wants it there
            for folder in paths.images(name):
                Path(folder).mkdir(parents=True, exist_ok=True)
    write_beside_specs(plan, Path(paths.work))
    return Planned(plan, needed, claims, {})


def refuse(sentence: str) -> NoReturn:
    """Stop with one sentence, as the `recap` commands do.

    Snakemake would add where its own code stood.
    """
    sys.exit(f"recap: {sentence}")


# A job on a cluster begins Snakemake twice more. Without this file both
# would read and check all parameters and follow the whole source again,
# for one command. The folder is locked: no other workflow has jobs here.
def pass_on(planned: Planned) -> None:
    """Write what was planned, and name the file to the jobs that are submitted from now on."""
    file = (LOCK_FOLDER / "planned").absolute()
    with atomic_path(file) as part:
        part.write_bytes(pickle.dumps(planned._replace(digests=dict(DIGESTS))))
    os.environ[VARIABLE] = str(file)


def passed_on() -> Planned | None:
    """Return what the main process of this job planned; None if it wrote no file."""
    if VARIABLE not in os.environ:
        return None
    # the main process of this user wrote it
    planned: Planned = pickle.loads(Path(os.environ[VARIABLE]).read_bytes())
    DIGESTS.update(planned.digests)
    return planned


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


def write_beside_specs(plan: RunPlan, work: Path) -> None:
    """Write `inputs`, a hint for commands, and how jobs of recipes and features are computed."""
    named: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for series, label in plan.labels().items():
        named[setting_names(series.rpartition("/")[0])["recipe"]][series] = label
    values: dict[str, Any] = {}
    for name in {run.recipe for run in [*plan.scored(), *plan.trained()]}:
        values[name] = {**execution(plan, name).model_dump(mode="json"), "labels": named[name]}
    for name in used_features(plan):
        settings = plan.get("features", name)
        values[f"features/{name}"] = settings.model_dump(
            mode="json", include=set(settings.EXECUTION)
        )
    texts = {records.INPUTS: f"{plan.profile.inputs}\n"}
    for name, each in values.items():
        texts[f"execution/{name}.yaml"] = yaml.safe_dump(each, sort_keys=False, allow_unicode=True)
    for name, text in texts.items():
        if not (work / name).exists() or (work / name).read_text(encoding="utf-8") != text:
            write_text(work / name, text)


def one_of(names: Iterable[str]) -> str:
    """Return the regular expression that matches these names and nothing else."""
    return "|".join(map(re.escape, names)) or "(?!)"
