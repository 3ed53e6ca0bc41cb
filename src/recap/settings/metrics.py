"""Which metrics there are, and what tables must know of their scores."""

from __future__ import annotations

from typing import Any

from recap.settings.kinds import Registry

# Name in `evaluation.metrics` -> subclass of :class:`recap.metrics.base.Metric`. This list is in
# the digest of every evaluation. A new metric registers itself in the `__init__` of a folder of
# `recap.papers` and rescores no other run.
METRICS = Registry(
    "metric",
    {
        "BLEU": "recap.metrics.coco:Bleu",
        "METEOR": "recap.metrics.meteor:Meteor",
        "ROUGE-L": "recap.metrics.coco:RougeL",
        "CIDEr": "recap.metrics.coco:Cider",
        "SPICE": "recap.metrics.spice:Spice",
        "Rating": "recap.metrics.external:Rating",
        "True captions": "recap.metrics.external:TrueCaptions",
        "True relations": "recap.metrics.external:TrueRelations",
    },
)
# What is scored where nothing else is asked for: COCO's metrics.
COCO = ("BLEU", "METEOR", "ROUGE-L", "CIDEr", "SPICE")
FEW_IMAGES = 100  # below it, CIDEr's document frequencies say little
# The COCO server scores against references that it alone has: 5 or 40 per image.
_SERVER = ("c5", "c40")


def server_names() -> list[str]:
    """Return the names of scores that COCO's server alone gives, ``c5.BLEU-1`` and so on."""
    names = [name for metric in COCO if metric != "SPICE" for name in METRICS.get(metric).names]
    return [f"{references}.{name}" for name in names for references in _SERVER]


def column_names() -> list[str]:
    """Return the names of all columns of tables that are scores."""
    return [
        name for metric in METRICS.names() for name in METRICS.get(metric).names
    ] + server_names()


def score_info(name: str) -> Any:
    """Return the metric that gives a score, or the COCO server's of the same name.

    KeyError: no metric gives it.
    """
    ours = name.partition(".")[2] if name.partition(".")[0] in _SERVER else name
    for metric in map(METRICS.get, METRICS.names()):
        if ours in metric.names:
            return metric
    raise KeyError(name)
