"""The typed config: the only description of what a YAML in ``params/`` may say.

A profile (``params/demo.yaml``) names tables; a table's rows name a dataset, a subset, features, a model and a recipe;
each of those is a separate file, where ``base: other`` means "as other, except".
"""

from __future__ import annotations

from typing import Any

from recap.core.config.base import Strict
from recap.core.config.datasets import Dataset
from recap.core.config.execution import Execution, ExecutionFile
from recap.core.config.features import Features
from recap.core.config.figures import FigureFile
from recap.core.config.language_models import LanguageModel
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
    CosineSchedule,
    NoamSchedule,
    PlateauSchedule,
    Schedule,
    StepSchedule,
    StepThenPlateauSchedule,
    TableSchedule,
)
from recap.core.config.studies import Study
from recap.core.config.subsets import Subset
from recap.core.config.tables import Profile, QuotedRow, Row, RowFile, RowSettings, Table, TableFile

__all__ = [
    "ConstantSchedule",
    "CosineSchedule",
    "CrossEntropy",
    "CrossEntropyRun",
    "Dataset",
    "DecodingRules",
    "Evaluation",
    "EvaluationSpec",
    "Execution",
    "ExecutionFile",
    "Features",
    "FigureFile",
    "LanguageModel",
    "Model",
    "ModelConfig",
    "NoamSchedule",
    "PlateauSchedule",
    "Profile",
    "QuotedRow",
    "Recipe",
    "Replacements",
    "Row",
    "RunSpec",
    "RowFile",
    "RowSettings",
    "SECTIONS",
    "Scale",
    "Schedule",
    "ScheduledSampling",
    "SelfCritical",
    "SelfCriticalRun",
    "Stage",
    "StepSchedule",
    "StepThenPlateauSchedule",
    "Strict",
    "Study",
    "Subset",
    "Table",
    "TableFile",
    "TableSchedule",
    "Titles",
]

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
