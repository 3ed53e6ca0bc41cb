"""VisualGPT's Figure 4: the self-resurrecting activation functions, computed by the layer of the model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from recap.core.files import atomic_path
from recap.evaluation.figures import DrawnModels
from recap.papers.visualgpt.figure_settings import GateFunctionsFigure
from recap.papers.visualgpt.srau import SelfResurrecting

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_REACH = 5.0  # the horizontal axis goes from minus this to this
_POINTS = 2001
_JUMP = 0.05  # from point to point; a sigmoid rises by a 40th of it


def draw_gate_functions(figure: GateFunctionsFigure, models: DrawnModels, files: Mapping[str, Path]) -> None:
    """Draw both gates at the figure's threshold beside complementary gates, plain and normalized."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    canvas = FigureCanvasAgg(Figure(figsize=(6.8, 3.4), dpi=200, layout="constrained"))
    plain, normalized = canvas.figure.subplots(1, 2, sharey=True)
    _panel(plain, figure.tau, normalized=False)
    _panel(normalized, figure.tau, normalized=True)
    plain.set_title(f"Self-resurrecting activation, \u03c4 = {figure.tau:g}", fontsize=9)
    normalized.set_title(f"Normalized, \u03c4 = {figure.tau:g}", fontsize=9)
    plain.set_ylabel("function value")
    canvas.figure.legend(*plain.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    with atomic_path(files["gate_functions.png"]) as temporary:
        canvas.figure.savefig(temporary, format="png")


def gate_values(inputs: Tensor, *, tau: float, normalized: bool) -> tuple[Tensor, Tensor]:
    """Return B_vis and B_lan [N] of Eq. 5, or of Eq. 6 if normalized, for the values [N] of the state."""
    gates = SelfResurrecting(
        d_model=len(inputs), levels=1, form="paper", tau=tau, activation="sigmoid", normalized=normalized
    )
    return gates.pair(inputs, torch.zeros_like(inputs), 0)


def _panel(axes: Axes, tau: float, *, normalized: bool) -> None:
    from recap.reporting.colours import COLOURS

    inputs = torch.linspace(-_REACH, _REACH, _POINTS)
    for gate, color, name in zip(
        gate_values(inputs, tau=tau, normalized=normalized), COLOURS, ("vis", "lan"), strict=False
    ):
        axes.plot(inputs, _broken(gate), color=color, linewidth=1.8, label=f"$B^{{{name}}}$")
    visual, language = gate_values(inputs, tau=0.0, normalized=normalized)
    for gate, label in ((visual, "complementary gates (\u03c4 = 0)"), (language, None)):
        axes.plot(inputs, gate, color="0.55", linewidth=1, linestyle="--", zorder=1, label=label)
    axes.axhline(tau, color="0.8", linewidth=0.8, zorder=0)
    axes.set_xlabel("function input")
    axes.grid(alpha=0.25)


def _broken(gate: Tensor) -> Tensor:
    """Return the values with NaN after each jump, so that no line joins its ends."""
    jumps = gate.diff(prepend=gate[:1]).abs() > _JUMP
    return gate.masked_fill(jumps, float("nan"))
