"""What a rehearsal says at its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rehearsal.acquisition import Played, rehearse_faults
from rehearsal.rehearse import Rehearsed, rehearse


def rehearsed(paper: str, faults: bool, **how: Any) -> str:
    """Rehearse a paper, or the faults of fetching its files, and return what is said of it."""
    if faults:
        return table_of_faults(rehearse_faults(paper, **how))
    return summary(rehearse(paper, **how))


def summary(done: Rehearsed) -> str:
    """Return the summary of a rehearsal, as lines of text."""
    return "\n".join(_lines(done))


def table_of_faults(played: Sequence[Played]) -> str:
    """Return a line about each fault of the server and each kill: what, file, sentence, whether it was resumed."""
    return "\n".join(each.line for each in played)


def _lines(done: Rehearsed) -> Iterator[str]:
    jobs = f"{done.run.total()} of {done.planned.total()} jobs"
    yield f"{done.paper}: {len(done.run)} of {len(done.planned)} rules run, {jobs}, {done.minutes:.1f} minutes"
    for rule, count in sorted(done.planned.items()):
        yield f"  {rule:32} {done.run[rule]:4} of {count}"
    if done.stand_ins:
        yield (
            f"detectron2 is not installed: stand-ins made {', '.join(done.stand_ins)}, in the form of the detectors' "
            "stores; no detector was tried"
        )
    yield f"{len(done.rows)} rows trained; steps of each stage, and the command that trains the row alone:"
    for row in done.rows:
        yield f"  {row.row:40} {' + '.join(map(str, row.steps)):>8}  {row.command}"
    if done.faults:
        yield "faults of the server and kills that were played before in this folder:"
        yield from (f"  {each}" for each in done.faults)
    left = [*(f"{name}: {steps}" for name, steps in sorted(done.by_hand.items())), *done.tools]
    yield "left to a person:" if left else "left to a person: nothing"
    yield from (f"  {each}" for each in left)
    yield f"all of it: {done.folder}"
