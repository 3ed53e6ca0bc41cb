"""What `recap measure` writes: whether a machine computes what it should, how fast, and a page that says so.

It needs the base install alone: no data, no network, no parameter file.
"""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from recap.core.device import half_precision, mixed, select_device
from recap.core.documents import write_json
from recap.core.errors import RecapError
from recap.core.files import write_text
from recap.core.hashing import commit
from recap.core.log import log
from recap.measure.checks import agreements, resumed
from recap.measure.steps import elapsed, machine, measure, paper_shapes, rounded
from recap.plan.amounts import StepShape
from recap.settings.features import GridFeatures

DETECTOR = "COCO-Detection/faster_rcnn_R_101_C4_3x.yaml"  # of detectron2's model zoo, with random weights


def measured(out: Path, *, device: str, tiny: bool, compiled: bool, shapes: Sequence[StepShape] = ()) -> None:
    """Measure this machine; write `out` after each row, and a page beside it; refuse a machine where something differs.

    Steps have the `shapes` of a plan, or are those of every kind at its paper's sizes; with `tiny` models have the
    sizes of their tests: a look whether all works, in a minute, whose times mean nothing.
    """
    processor = select_device(device)
    rates = {name: _matrix_tflops(processor, name, tiny) for name in _precisions(processor)}
    report: dict[str, Any] = {
        "tiny": tiny,
        "device": processor.type,
        "machine": machine(processor),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "recap": f"{version('recap')}, commit {commit()}",
        "measured_on": str(date.today()),
        "matrix_tflops": rates,
    }

    def part(name: str, rows: Iterable[dict[str, Any]]) -> None:
        report[name] = []
        for row in rows:
            report[name].append(row)
            shown = {**row, **row.get("cost", {})}
            log.info(f"{name}: {', '.join(f'{key} {shown[key]}' for key in _SHOWN if key in shown)}")
            write_json(out, report)
        write_text(out.with_suffix(".md"), page(report))

    part("agreement", agreements(processor, compiled=compiled))
    with tempfile.TemporaryDirectory() as folder:
        part("resume", (resumed(stage, processor, Path(folder) / stage) for stage in ("xe", "scst")))
        shapes = shapes or list(paper_shapes(tiny=tiny, precisions=_precisions(processor)))
        step = partial(measure, device=processor)
        modes = (False, True) if compiled else (False,)
        rows = (step(shape, compiled=mode) for shape in shapes for mode in modes)
        part("steps", ({**row, "share": rounded(row["tflops"] / rates["float32"])} for row in rows))
    part("pictures", _pictures(processor, tiny))
    if wrong := _wrong(report):
        raise RecapError(
            f"{out.with_suffix('.md')}: this does not hold: {'; '.join(wrong)}; send the page to the project"
        )


_SHOWN = ("kind", "precision", "stage", "work", "holds", "resumes", "seconds", "launches", "extractor", "a_second")


def _precisions(device: torch.device) -> list[str]:
    return ["float32", "bf16"] if half_precision(device) is torch.bfloat16 else ["float32"]


def _matrix_tflops(device: torch.device, precision: str, tiny: bool) -> float:
    """Return the 10^12 operations a second of a product of large square matrices."""
    torch.set_float32_matmul_precision("high")  # as in trainings: TF32 on a GPU
    edge = 256 if tiny else 8192 if device.type == "cuda" else 1024
    with mixed(precision, device), torch.no_grad():
        left, right = torch.rand(2, edge, edge, device=device)
        return rounded(2 * edge**3 / _seconds(lambda: left @ right, device) / 1e12)


def _seconds(work: Callable[[], Any], device: torch.device) -> float:
    """Return the seconds of the quickest of five, after two to warm up."""
    return min([elapsed(work, device) for _ in range(7)][2:])


def _pictures(device: torch.device, tiny: bool) -> Iterable[dict[str, Any]]:
    """Yield the pictures a second of a backbone and, where detectron2 is installed, of a detector; random weights."""
    from recap.features.grid import Backbone

    backbone = "mobilenetv2_050" if tiny else "resnet101"
    settings = GridFeatures.model_validate({"kind": "grid", "backbone": backbone, "weights": "random", "grid": 7})
    encoder, count = Backbone(settings, weights=None, device=device), 2 if tiny else 32
    pictures = torch.randint(256, (count, settings.image_size, settings.image_size, 3), dtype=torch.uint8)
    seconds = _seconds(lambda: encoder.rows(pictures), device)
    yield {"extractor": f"grid, {backbone}", "a_second": rounded(count / seconds), "holds": True}
    if find_spec("detectron2") is None:
        yield {"extractor": "detectron2: not installed", "a_second": None, "holds": None}
        return
    from recap.features.detectron import built

    model, _ = built(DETECTOR, {}, seed=0, device=device)
    picture = [{"image": torch.rand(3, 600, 800) * 255}]
    with torch.no_grad():
        seconds = _seconds(lambda: model(picture), device)
    yield {"extractor": f"detectron2, {DETECTOR}", "a_second": rounded(1 / seconds), "holds": True}


def page(report: dict[str, Any]) -> str:
    """Return the page: what was measured, what does not hold, then a table of each part."""
    wrong = _wrong(report)
    rates = ", ".join(f"{rate:g} TFLOP/s in {name}" for name, rate in report["matrix_tflops"].items())
    lines = [
        f"# {report['machine']} ({report['device']})",
        "",
        f"recap {report['recap']}, Python {report['python']}, torch {report['torch']}, {report['measured_on']}. "
        f"Products of large matrices: {rates}{'; float32 is TF32 on a GPU' if report['device'] == 'cuda' else ''}.",
        *(["", "**Tiny models: the times below say nothing about this machine.**"] if report["tiny"] else []),
        "",
        f"**Does not hold: {'; '.join(wrong)}.**" if wrong else "Everything that was compared holds.",
    ]
    for name, (title, columns) in _TABLES.items():
        if report.get(name):
            lines += ["", f"## {title}", "", *_table(columns.split(), report[name])]
    return "\n".join([*lines, ""])


def _wrong(report: dict[str, Any]) -> list[str]:
    wrong = [f"{row['kind']} in {row['precision']}" for row in report.get("agreement", []) if not row["holds"]]
    return wrong + [f"a killed training ({row['stage']})" for row in report.get("resume", []) if not row["resumes"]]


_TABLES = {
    "agreement": (
        "Beside float64 on the CPU: relative error of loss and gradient, share of equal captions",
        "kind precision loss gradient captions holds",
    ),
    "resume": ("A training run twice, and one killed and continued: the same bits", "stage repeats resumes"),
    "steps": (
        "Steps: seconds an image, operators and waits a step, share of the machine's products",
        "kind work compiled images seconds images_per_second launches waits gflop peak_mb share",
    ),
    "pictures": ("Pictures a second, random weights", "extractor a_second"),
}


def _table(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> list[str]:
    flat = [{**row, **row.get("cost", {})} for row in rows]  # of a step, what a plan reads stands apart
    cells = [[_cell(row[column]) for column in columns] for row in flat]
    head = [[column.replace("_", " ") for column in columns], ["---"] * len(columns)]
    return [f"| {' | '.join(row)} |" for row in [*head, *cells]]


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
