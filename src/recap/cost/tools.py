"""Which tools a plan needs, here or not."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from recap.core.process.gpus import devices
from recap.cost.doctor import Tool, java, parts_of_speech, program, spice
from recap.plan.inputs import used_stores
from recap.plan.run_plan import RunPlan
from recap.settings.metrics import METRICS


def tools(plan: RunPlan) -> Iterator[Tool]:
    """Yield the tools that a plan needs, whether they are here or not."""
    metrics = {name for run in plan.scored() for name in plan.recipe(run.recipe).evaluation.metrics}
    if of_java := sorted(name for name in metrics if "java" in METRICS.get(name).needs):
        yield java(f"no {' and no '.join(of_java)}")
    if "SPICE" in metrics:
        yield spice(plan.profile.inputs)
    yield parts_of_speech()
    features = sorted({run.features for run in used_stores(plan)})
    if detectors := [name for name in features if plan.get("features", name).needs_detectron2]:
        without = f"no {', '.join(detectors)}, and no table that reads them"
        get = "snakemake --sdm conda builds it, or docs/detectron2.md"
        yield Tool("detectron2", "here" if find_spec("detectron2") else None, without, get)
    if plan.profile.execution.device != "cpu":
        without = "all trainings and extractors run on CPU cores"
        yield Tool("GPU", ", ".join(devices()) or None, without, "see the hours below")
    yield program("LaTeX")
