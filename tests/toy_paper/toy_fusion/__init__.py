"""A paper of a user's own, in the form of `recap.papers`;
RECAP_PLUGINS names it, and nothing else is touched.

`model` is the architecture, `figures` and `metrics` are what its table shows. All three are
imported on first use.
"""

from recap.settings.metrics import METRICS
from toy_fusion.figure_settings import LengthsFigure
from toy_fusion.settings import ToyFusionModel

__all__ = ["LengthsFigure", "ToyFusionModel"]

METRICS.register("Words", "toy_fusion.metrics:Words")
