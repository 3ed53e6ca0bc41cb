"""Whether the models of a profile can be built,
and how many parameters they have, found out before the first job."""

from __future__ import annotations

from pathlib import Path

from pydantic import NonNegativeInt

from recap.core.documents import read_json, write_json
from recap.core.errors import ConfigError, RecapError, first_line
from recap.core.hashing import value_hash
from recap.core.log import log
from recap.plan.amounts import Amounts
from recap.plan.costs import Costs, Parameters, inputs_of, measured_costs
from recap.plan.paths import Paths
from recap.plan.run_plan import RunPlan
from recap.plan.source import job_code
from recap.settings import ModelConfig

# Of the right order, where the parameter files do not say;
# what is built on the meta device takes no memory.
FEATURE_SIZE, VOCABULARY_SIZE = 2048, 10_000


def check_models(plan: RunPlan, cache: Path | None = None) -> Parameters:
    """Build every model of a plan without memory, and return the parameters of each.

    `cache` is a JSON file that keeps what was built before, so that torch is imported for changed
    models alone.
    """
    cached: dict[str, int] = {}
    if cache is not None and cache.exists():
        try:
            cached = dict(read_json(cache, dict[str, NonNegativeInt]))
        except RecapError as error:
            log.info(f"{error} (done now)")
    amounts, parameters, counts = Amounts(plan), {}, dict[str, int]()
    for run in plan.scored():
        if inputs_of(run) in parameters:
            continue
        config: ModelConfig = plan.get("models", run.model)
        sizes = {name: stream.width for name, stream in amounts.streams(run).items()}
        sizes = sizes or dict.fromkeys(config.example_streams, FEATURE_SIZE)
        ids = plan.get("datasets", run.dataset).vocabulary_ids or VOCABULARY_SIZE
        code = job_code("recap.models.base", config.kind)
        key = value_hash([config.model_dump(mode="json"), list(sizes.items()), ids, code])
        if key not in counts:
            source = plan.variant("models", run.model).layers(plan.params)[-1][0]
            counts[key] = cached[key] if key in cached else _build(config, sizes, ids, source)
        parameters[inputs_of(run)] = counts[key]
    if cache is not None and not counts.keys() <= cached.keys():
        write_json(cache, dict(sorted(counts.items())))
    return parameters


def costs_of(plan: RunPlan, measured: Path | None = None) -> Costs:
    """Return the costs of a plan by a file of `recap measure`,
    `work/measured.json`, and the project's own table."""
    parameters = check_models(plan, Path(Paths(plan).work) / "checked_models.json")
    return Costs(plan, parameters, measured_costs(plan.params, measured))


def _build(config: ModelConfig, sizes: dict[str, int], ids: int, source: str) -> int:
    import torch

    from recap.models.base import build_model
    from recap.models.images import InputSpec

    try:
        with torch.device("meta"):
            model = build_model(config, InputSpec(sizes, ids))
    except RecapError as error:
        raise ConfigError(f"{source}: {error}") from error
    except (RuntimeError, TypeError, ArithmeticError) as error:
        raise ConfigError(f"{source}: {first_line(error)}") from error
    return sum(parameter.numel() for parameter in model.parameters())
