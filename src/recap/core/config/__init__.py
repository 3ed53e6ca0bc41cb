"""The typed config: the only description of what a YAML in ``params/`` may say.

A profile (``params/demo.yaml``) names tables; a table's rows name a dataset, a subset, features, a model and a recipe;
each of those is a file of its own, where ``base: other`` means "as other, except".
"""

from __future__ import annotations

from typing import Any

from recap.core.config.base import Strict
from recap.core.config.datasets import Dataset
from recap.core.config.features import Features
from recap.core.config.models import Model, TransformerModel, UpDownModel, XLanModel, XTransformerModel, ZodiacModel
from recap.core.config.recipes import (
    CrossEntropy,
    DecodingRules,
    Evaluation,
    Recipe,
    ScheduledSampling,
    SelfCritical,
    Stage,
)
from recap.core.config.schedules import (
    ConstantSchedule,
    NoamSchedule,
    PlateauSchedule,
    Schedule,
    StepSchedule,
    TableSchedule,
)
from recap.core.config.subsets import Subset
from recap.core.config.tables import Profile, QuotedRow, Row, Table

__all__ = [
    "ConstantSchedule",
    "CrossEntropy",
    "Dataset",
    "DecodingRules",
    "Evaluation",
    "Features",
    "Model",
    "NoamSchedule",
    "PlateauSchedule",
    "Profile",
    "QuotedRow",
    "Recipe",
    "Row",
    "SECTIONS",
    "Schedule",
    "ScheduledSampling",
    "SelfCritical",
    "Stage",
    "StepSchedule",
    "Strict",
    "Subset",
    "Table",
    "TableSchedule",
    "TransformerModel",
    "UpDownModel",
    "XLanModel",
    "XTransformerModel",
    "ZodiacModel",
]

SECTIONS: dict[str, Any] = {
    "datasets": Dataset,
    "subsets": Subset,
    "features": Features,
    "models": Model,
    "recipes": Recipe,
    "tables": Table,
}
