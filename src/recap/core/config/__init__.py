"""The typed config: the only description of what a YAML in ``params/`` may say.

A profile (``params/demo.yaml``) names tables; a table's rows name a dataset, a subset, features, a model and a recipe;
each of those is a file of its own, where ``base: other`` means "as other, except".
"""

from __future__ import annotations

from typing import Any

from recap.core.config.base import Strict
from recap.core.config.data import Dataset, KarpathyDataset, ScenesDataset, Subset, VocabularyRule
from recap.core.config.features import BoxPretraining, GridFeatures
from recap.core.config.models import Model, TransformerModel, UpDownModel, XLanModel, XTransformerModel, ZodiacModel
from recap.core.config.recipes import CrossEntropy, Evaluation, Recipe, Schedule, ScheduledSampling, SelfCritical, Stage
from recap.core.config.tables import METRICS, Profile, QuotedRow, Row, Table

__all__ = [
    "BoxPretraining",
    "CrossEntropy",
    "Dataset",
    "Evaluation",
    "GridFeatures",
    "KarpathyDataset",
    "METRICS",
    "Model",
    "Profile",
    "QuotedRow",
    "Recipe",
    "Row",
    "SECTIONS",
    "ScenesDataset",
    "Schedule",
    "ScheduledSampling",
    "SelfCritical",
    "Stage",
    "Strict",
    "Subset",
    "Table",
    "TransformerModel",
    "UpDownModel",
    "VocabularyRule",
    "XLanModel",
    "XTransformerModel",
    "ZodiacModel",
]

SECTIONS: dict[str, Any] = {
    "datasets": Dataset,
    "subsets": Subset,
    "features": GridFeatures,
    "models": Model,
    "recipes": Recipe,
    "tables": Table,
}
