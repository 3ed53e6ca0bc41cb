"""Which metrics there are, and what tables must know of their scores."""

from __future__ import annotations

from typing import Any

from recap.settings.kinds import Registry

# Name in `evaluation.metrics` -> subclass of :class:`recap.metrics.base.Metric`. The names are
# registered in `recap.settings`, which is in no digest: of metrics, only those that a recipe names
# are in the digest of its evaluations.
METRICS = Registry("metric", package="recap.papers")
# What is scored where nothing else is asked for: COCO's metrics.
COCO = ("BLEU", "METEOR", "ROUGE-L", "CIDEr", "SPICE")
FEW_IMAGES = 100  # below it, CIDEr's document frequencies say little
# The COCO server scores against references that it alone has: 5 or 40 per image.
_SERVER = ("c5", "c40")


def server_names() -> list[str]:
    """Return the names of scores that COCO's server alone gives, ``c5.BLEU-1`` and so on."""
    server: list[str] = []
    for metric in COCO:
        if metric != "SPICE":
            for name in METRICS.get(metric).names:
                server += [f"{references}.{name}" for references in _SERVER]
    return server


def column_names() -> list[str]:
    """Return the names of all columns of tables that are scores."""
    names: list[str] = []
    for metric in METRICS.names():
        names += METRICS.get(metric).names
    return names + server_names()


def score_info(name: str) -> Any:
    """Return the metric that gives a score, or the COCO server's of the same name.

    KeyError: no metric gives it.
    """
    ours = name.partition(".")[2] if name.partition(".")[0] in _SERVER else name
    for metric in map(METRICS.get, METRICS.names()):
        if ours in metric.names:
            return metric
    raise KeyError(name)
