"""How long jobs take if several run at once, each after those that it waits for."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Job:
    """A job: its seconds, and the jobs that must have ended before it begins."""

    seconds: float
    after: tuple[Hashable, ...] = ()


def chains(jobs: Mapping[Name, Job]) -> dict[Hashable, float]:
    """Return the seconds from the beginning of each job to the end of the last one that waits for it.

    Args:
        jobs: each after those that it waits for.
    """
    left: dict[Hashable, float] = {}
    for name in reversed(list(jobs)):
        left[name] = left.get(name, 0.0) + jobs[name].seconds
        for before in jobs[name].after:
            left[before] = max(left.get(before, 0.0), left[name])
    return left


def makespan(jobs: Mapping[Name, Job], places: int) -> float:
    """Return the seconds until all jobs have ended, so many at a time, the one with the longest chain first.

    This is a list schedule: at most twice as long as the best one.

    Args:
        jobs: each after those that it waits for.
        places: jobs that run at once.
    """
    left, now = chains(jobs), 0.0
    waiting = {name: set(job.after) for name, job in jobs.items()}
    following: dict[Hashable, list[Name]] = {name: [] for name in jobs}
    for name, job in jobs.items():
        for before in set(job.after):
            following[before].append(name)
    order = {name: index for index, name in enumerate(jobs)}
    ready = [(-left[name], order[name], name) for name, before in waiting.items() if not before]
    heapq.heapify(ready)
    running: list[tuple[float, int, Name]] = []
    while ready or running:
        while ready and len(running) < places:
            *_, name = heapq.heappop(ready)
            heapq.heappush(running, (now + jobs[name].seconds, order[name], name))
        now, _, ended = heapq.heappop(running)
        for name in following[ended]:
            waiting[name].discard(ended)
            if not waiting[name]:
                heapq.heappush(ready, (-left[name], order[name], name))
    return now
