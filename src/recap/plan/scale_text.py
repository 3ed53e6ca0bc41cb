"""The sentence under a table that says at which scale it is, and with which data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from recap.settings import Scale, TableFile, Titles


class Scaled(NamedTuple):
    """What the sentences under tables are made from."""

    table: TableFile
    notes: list[str]  # of the scale
    datasets: list[tuple[str, str]]  # of each row: as the table has it, and as it is made
    as_printed: bool  # every row has the data set and the settings of the printed numbers


def sentence(tables: Sequence[Scaled], *, scale: Scale, titles: Titles) -> str:
    """Return the scale of tables in one sentence that names the data that were replaced.

    Nothing without a scale, and at the paper's own only for the settings of the printed numbers.
    """
    if not scale.opening or (scale.paper and not all(each.as_printed for each in tables)):
        return ""
    replaced: dict[str, list[str]] = {}  # new data set -> the old ones, each once
    for table in tables:
        for old, new in table.datasets:
            names = replaced.setdefault(titles.datasets.get(new, new), [])
            name = titles.datasets.get(old, old)
            if old != new and name not in names:
                names.append(name)
    parts = [f"{new} in place of {_listed(old)}" for new, old in replaced.items() if old]
    return f"{scale.opening}: {'; '.join(parts)}." if parts else f"{scale.opening}."


def sentences(tables: Sequence[Scaled], *, scale: Scale, titles: Titles) -> str:
    """Return the scale with the notes below a table, or below a figure of several tables."""
    table = tables[0].table
    texts = [sentence(tables, scale=scale, titles=titles), table.note]
    if scale.paper:
        texts.append(table.paper_note)
    for each in tables:
        texts += [note for note in each.notes if note not in texts]
    if table.source:
        texts.append(f"Printed: {table.source}.")
    return " ".join(filter(None, texts))


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
