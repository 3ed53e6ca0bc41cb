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

_METRICS = {
    "BLEU": "recap.metrics.coco:Bleu",
    "METEOR": "recap.metrics.meteor:Meteor",
    "ROUGE-L": "recap.metrics.coco:RougeL",
    "CIDEr": "recap.metrics.coco:Cider",
    "SPICE": "recap.metrics.spice:Spice",
    "Rating": "recap.metrics.external:Rating",
    "True captions": "recap.metrics.external:TrueCaptions",
    "True relations": "recap.metrics.external:TrueRelations",
    "CLIPScore": "recap.evaluation.clip_score:ClipScore",
}
for _name, _target in _METRICS.items():
    METRICS.register(_name, _target)

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
