"""The typed config: the only description of what a YAML in ``params/`` may say.

A profile (``params/demo.yaml``) names tables; a table's rows name a dataset, a subset, features, a model and a recipe;
each of those is a file of its own, where ``base: other`` means "as other, except".
"""

from __future__ import annotations

from typing import Any

from recap.core.config.base import Strict
from recap.core.config.data import (
    BytePairRule,
    CocoDataset,
    ConceptualDataset,
    Dataset,
    IuXrayDataset,
    KarpathyDataset,
    ScenesDataset,
    Subset,
    VocabularyRule,
    Words,
)
from recap.core.config.execution import Execution
from recap.core.config.features import (
    BoxPretraining,
    CropFeatures,
    Features,
    GridFeatures,
    ImportedFeatures,
    RegionFeatures,
    SegmentFeatures,
)
from recap.core.config.models import Model, ModelConfig
from recap.core.config.recipes import (
    CrossEntropy,
    DecodingRules,
    Evaluation,
    Recipe,
    ScheduledSampling,
    SelfCritical,
    Stage,
)
from recap.core.config.run import CrossEntropyRun, EvaluationSpec, RunSpec, SelfCriticalRun
from recap.core.config.scales import Replacements, Scale, Titles
from recap.core.config.schedules import (
    ConstantSchedule,
    NoamSchedule,
    PlateauSchedule,
    Schedule,
    StepSchedule,
    TableSchedule,
)
from recap.core.config.tables import METRICS, Profile, QuotedRow, Row, RowFile, RowSettings, Table, TableFile

__all__ = [
    "BoxPretraining",
    "BytePairRule",
    "CocoDataset",
    "ConceptualDataset",
    "ConstantSchedule",
    "CropFeatures",
    "CrossEntropy",
    "CrossEntropyRun",
    "Dataset",
    "DecodingRules",
    "Evaluation",
    "EvaluationSpec",
    "Execution",
    "Features",
    "GridFeatures",
    "ImportedFeatures",
    "IuXrayDataset",
    "KarpathyDataset",
    "METRICS",
    "Model",
    "ModelConfig",
    "NoamSchedule",
    "PlateauSchedule",
    "Profile",
    "QuotedRow",
    "Recipe",
    "RegionFeatures",
    "Replacements",
    "Row",
    "RunSpec",
    "RowFile",
    "RowSettings",
    "SECTIONS",
    "Scale",
    "ScenesDataset",
    "Schedule",
    "ScheduledSampling",
    "SegmentFeatures",
    "SelfCritical",
    "SelfCriticalRun",
    "Stage",
    "StepSchedule",
    "Strict",
    "Subset",
    "Table",
    "TableFile",
    "TableSchedule",
    "Titles",
    "VocabularyRule",
    "Words",
]

SECTIONS: dict[str, Any] = {
    "datasets": Dataset,
    "subsets": Subset,
    "features": Features,
    "models": Model,
    "recipes": Recipe,
    "scales": Scale,
    "tables": TableFile,
}
