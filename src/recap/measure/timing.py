"""Times the steps of a plan on this machine, and adds them to the table of what was timed."""

from __future__ import annotations

import time
from pathlib import Path

from recap.core.errors import counted
from recap.core.log import log
from recap.plan.costs import Costs, StepCosts, add_costs


def time_steps(costs: Costs, table: Path, *, device: str, minutes: float) -> None:
    """Measure what the table lacks of this machine, one of every kind of model first; none begins after the minutes."""
    from recap.core.device import select_device
    from recap.measure.steps import machine, measure

    processor = select_device(device)
    here = processor.type, machine(processor)
    known = {row.key for row in StepCosts.read([table]).rows if (row.device, row.machine) == here}
    todo = [shape for shape in costs.shapes() if shape.key not in known]
    end = time.monotonic() + 60 * minutes
    for done, shape in enumerate(todo):
        if time.monotonic() > end:
            left = counted(len(todo) - done, "kind")
            log.info(f"{left} of steps were not timed in {minutes:g} minutes; the same command continues")
            break
        row = measure(shape, device=processor)
        add_costs(table, [row])
        log.info(f"{row.kind} {row.work}: {row.gflop:g} GFLOP and {row.seconds:g} s an image on {row.machine}")
