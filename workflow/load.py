"""Loads what the rules share before the first job: the plan of a profile, and where its files are."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workflow.specs import write_executions

from recap.core.errors import RecapError
from recap.data.files.missing import files_to_fetch
from recap.models.check import check_models
from recap.plan import used_inputs
from recap.plan.inputs import hub_weights, missing_inputs
from recap.plan.load import load_plan
from recap.plan.paths import Paths
from recap.plan.run_plan import RunPlan


def load(config: Mapping[str, Any], files: Sequence[str]) -> tuple[RunPlan, Paths, dict[str, str]]:
    """Return plan, paths, and the missing outside files that are fetched; write the files that jobs read beside specs.

    Args:
        config: what Snakemake read.
        files: where from.

    Raises:
        SystemExit: the profile cannot be made; its message is the one sentence that says why.
    """
    try:
        plan = load_plan(config, files)
        paths = Paths(plan)
        check_models(plan, Path(paths.work) / "checked_models.json")
        profile = plan.profile
        fetched = files_to_fetch(missing_inputs(paths), plan.params, inputs=profile.inputs, fetch=profile.fetch)
    except RecapError as error:
        refuse(str(error))
    if fetched:
        print(f"recap: to be fetched from the network: {', '.join(fetched)}", file=sys.stderr)
    if backbones := ", ".join(hub_weights(paths)):
        hub = "to be fetched from the HuggingFace hub, unless they are in its cache"
        print(f"recap: {hub}: weights of {backbones}", file=sys.stderr)
    write_executions(plan, plan.labels(), Path(paths.work) / "execution")
    used_inputs.note(Path(paths.work), profile.inputs)
    return plan, paths, fetched


def refuse(sentence: str) -> None:
    """Stop with one sentence, as the `recap` commands do; Snakemake would add where its own code stood."""
    sys.exit(f"recap: {sentence}")
