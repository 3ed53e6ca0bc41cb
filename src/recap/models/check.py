"""Whether the models of a profile can be built, and how many parameters they have, found out before the first job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import NonNegativeInt

from recap.core.documents import read_json, write_json
from recap.core.errors import ConfigError, RecapError, first_line
from recap.core.hashing import value_hash
from recap.core.log import log
from recap.plan.amounts import Amounts
from recap.plan.costs import Costs, Parameters, StepCosts, inputs_of
from recap.plan.paths import Paths
from recap.plan.run import Run
from recap.plan.run_plan import RunPlan
from recap.plan.source import job_code
from recap.settings import ModelConfig

# Of the right order, where the parameter files do not say; what is built on the meta device takes no memory.
FEATURE_SIZE, VOCABULARY_SIZE = 2048, 10_000


def check_models(plan: RunPlan, known: Path | None = None) -> Parameters:
    """Build every model of a plan without memory, and return the parameters of each.

    Args:
        plan: whose rows name models.
        known: a JSON file that keeps what was built before, so that torch is imported for changed models alone.
    """
    seen = _known(known) if known is not None and known.exists() else {}
    found: dict[str, int] = {}
    hashes: dict[tuple[str, str, str], str] = {}
    for run in plan.scored():
        if inputs_of(run) in hashes:
            continue
        config, sizes, ids = plan.get("models", run.model), *_sizes(plan, run)
        key = hashes[inputs_of(run)] = _hash(config, sizes, ids)
        if key not in found:
            source = plan.variant("models", run.model).layers(plan.params)[-1][0]
            found[key] = seen[key] if key in seen else _build(config, sizes, ids, source)
    if known is not None and not found.keys() <= seen.keys():
        write_json(known, dict(sorted(found.items())))
    return {inputs: found[key] for inputs, key in hashes.items()}


def costs_of(plan: RunPlan) -> Costs:
    """Return the costs of a plan from its parameter files, what was timed here, and the project's own table."""
    parameters = check_models(plan, Path(Paths(plan).work) / "checked_models.json")
    return Costs(plan, parameters, StepCosts.of_project(plan.params))


def _known(file: Path) -> dict[str, int]:
    try:
        return dict(read_json(file, dict[str, NonNegativeInt]))
    except RecapError as error:
        log.info(f"{error} (done now)")
        return {}


def _sizes(plan: RunPlan, run: Run) -> tuple[dict[str, int], int]:
    """Return the width of each stream of a run, and the ids of its vocabulary."""
    amounts = Amounts(plan)
    streams = {name: stream.width for name, stream in amounts.streams(run).items()}
    ids = plan.get("datasets", run.dataset).vocabulary_ids or VOCABULARY_SIZE
    return streams or dict.fromkeys(plan.get("models", run.model).example_streams, FEATURE_SIZE), ids


def _hash(config: ModelConfig, sizes: Mapping[str, int], ids: int) -> str:
    code = job_code("recap.models.registry", config.kind)
    return value_hash([config.model_dump(mode="json"), list(sizes.items()), ids, code])


def _build(config: ModelConfig, sizes: Mapping[str, int], ids: int, source: str) -> int:
    import torch

    from recap.models.images import InputSpec
    from recap.models.registry import build_model

    try:
        with torch.device("meta"):
            model = build_model(config, InputSpec(sizes, ids))
    except RecapError as error:
        raise ConfigError(f"{source}: {error}") from error
    except (RuntimeError, TypeError, ArithmeticError) as error:
        raise ConfigError(f"{source}: {first_line(error)}") from error
    return sum(parameter.numel() for parameter in model.parameters())
