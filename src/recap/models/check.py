"""Whether the models of a profile can be built, found out before the first job."""

from __future__ import annotations

from pathlib import Path

from recap.core.documents import read_json, write_json
from recap.core.errors import ConfigError, RecapError, first_line
from recap.core.hashing import value_hash
from recap.core.log import log
from recap.plan.plan import Plan
from recap.plan.source import job_code
from recap.plan.workload import Workload
from recap.settings import ModelConfig

# Of the right order, where the parameter files do not say;
# what is built on the meta device takes no memory.
FEATURE_SIZE, VOCABULARY_SIZE = 2048, 10_000


def check_models(plan: Plan, cache: Path | None = None) -> None:
    """Build every model of a plan without memory.

    `cache` is a JSON file that notes what was built before, so that torch is imported for changed
    models alone.
    """
    noted: set[str] = set()
    if cache is not None and cache.exists():
        try:
            noted = set(read_json(cache, list[str]))
        except RecapError as error:
            log.info(f"{error} (done now)")
    workload = Workload(plan)
    checked: set[str] = set()
    for run in plan.scored:
        config = plan.settings.model(run.model)
        sizes = {name: stream.width for name, stream in workload.streams(run).items()}
        sizes = sizes or dict.fromkeys(config.example_streams, FEATURE_SIZE)
        ids = plan.settings.dataset(run.dataset).vocabulary_ids or VOCABULARY_SIZE
        code = job_code("recap.models.base", config.kind)
        key = value_hash([config.model_dump(mode="json"), list(sizes.items()), ids, code])
        if key not in checked | noted:
            source = plan.settings.variant("models", run.model).layers(plan.params)[-1][0]
            _build(config, sizes, ids, source)
        checked.add(key)
    if cache is not None and not checked <= noted:
        write_json(cache, sorted(checked))


def _build(config: ModelConfig, sizes: dict[str, int], ids: int, source: str) -> None:
    import torch

    from recap.models.base import build_model
    from recap.models.images import InputSpec

    try:
        with torch.device("meta"):
            build_model(config, InputSpec(sizes, ids))
    except (RecapError, RuntimeError, ValueError, TypeError, ArithmeticError) as error:
        raise ConfigError(f"{source}: {first_line(error)}") from error
