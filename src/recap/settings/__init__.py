"""Typed settings: what a YAML file in ``params/`` may say, and nothing else.

A profile (``params/demo.yaml``) names tables; a table's rows name a dataset, a subset, features, a
model and a recipe; each of those is a separate file, where ``base: other`` means "as other,
except".
"""

from __future__ import annotations

from typing import Any

from recap.settings.datasets import Dataset, Subset
from recap.settings.features import Features
from recap.settings.figures import FigureFile
from recap.settings.metrics import METRICS
from recap.settings.models import LanguageModel, Model, ModelConfig
from recap.settings.profiles import PaperProfile, Profile, Scale, Titles
from recap.settings.recipes import (
    CrossEntropy,
    DecodingSettings,
    Execution,
    ExecutionFile,
    Recipe,
    SelfCritical,
    Stage,
)
from recap.settings.studies import Study
from recap.settings.tables import (
    NotRunRow,
    OutsideRow,
    QuotedRow,
    Row,
    RowFile,
    Server,
    Table,
    TableFile,
    TableOfParts,
)

# Here, as a paper registers its own:
# the list in `recap.settings.metrics` is in the digest of every evaluation.
METRICS.register("CLIPScore", "recap.evaluation.clip_score:ClipScore")

SECTIONS: dict[str, Any] = {
    "datasets": Dataset,
    "subsets": Subset,
    "features": Features,
    "language_models": LanguageModel,
    "models": Model,
    "recipes": Recipe,
    "scales": Scale,
    "studies": Study,
    "tables": TableFile,
    "figures": FigureFile,
}
