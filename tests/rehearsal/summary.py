"""What a rehearsal says at its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rehearsal.rehearse import Rehearsed, rehearse


def rehearsed(paper: str, **how: Any) -> str:
    """Rehearse a paper, and return what is said of it."""
    return summary(rehearse(paper, **how))


def summary(done: Rehearsed) -> str:
    """Return the summary of a rehearsal, as lines of text."""
    return "\n".join(_lines(done))


def _lines(done: Rehearsed) -> Iterator[str]:
    state, planned = done.state, done.planned
    jobs = f"{done.run.total()} of {planned.total()} jobs"
    yield f"{state.paper}: {len(done.run)} of {len(planned)} rules run, {jobs}, {state.minutes:.1f} minutes"
    for rule, count in sorted(planned.items()):
        yield f"  {rule:32} {done.run[rule]:4} of {count}"
    if done.stand_ins:
        yield (
            f"detectron2 is not installed: stand-ins made {', '.join(done.stand_ins)}, in the form of the detectors' "
            "stores; no detector was tried"
        )
    yield f"{len(done.rows)} rows trained; steps of each stage, and the command that trains the row alone:"
    for row in done.rows:
        yield f"  {row.row:40} {' + '.join(map(str, row.steps)):>8}  {row.command}"
    left = [f"{name}: {steps}" for name, steps in sorted(state.by_hand.items())]
    left += [f"{tool.name}: {tool.without} ({tool.get})" for tool in done.tools]
    yield "left to a person:" if left else "left to a person: nothing"
    yield from (f"  {each}" for each in left)
    yield f"all of it: {done.folder}"
