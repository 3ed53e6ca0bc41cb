"""Of what size the steps of a plan are: equal shapes are measured once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from recap.core.hashing import value_hash
from recap.plan.amounts import Amounts, StepInputs
from recap.plan.run import Run
from recap.settings import CrossEntropy, DecodingSettings, ModelConfig, SelfCritical, Stage

Work = Literal["xe", "scst", "decode"]
# Keys of a stage that change how much a step computes.
_OF_STEPS = {"samples", "sampling", "baseline", "dropout", "cross_entropy", "bleu4", "weight_average", "precision"}


@dataclass(frozen=True)
class StepShape:
    """One optimizer step of a stage, or the decoding of test images: all that decides what it computes."""

    work: Work  #: xe, scst or decode
    model: ModelConfig  #: settings of the model
    settings: Stage | DecodingSettings  #: of the stage, or of the search
    inputs: StepInputs  #: what a step works on
    images: int  #: of a step, or of a batch that is decoded

    @cached_property
    def key(self) -> str:
        """Hash of all but the number of images, for the operations of each are the same."""
        if isinstance(self.settings, Stage):
            settings = self.settings.model_dump(mode="json", include=_OF_STEPS)
            settings["sampled"] = (
                isinstance(self.settings, CrossEntropy) and self.settings.scheduled_sampling is not None
            )
        else:
            settings = self.settings.model_dump(mode="json", include={"beam", "rules", "length_penalty"})
        streams = {name: [stream.vectors, stream.width] for name, stream in self.inputs.streams.items()}
        sizes = [streams, self.inputs.ids, round(self.inputs.captions, 2), self.inputs.words, self.inputs.longest]
        return value_hash([self.work, self.model.model_dump(mode="json"), settings, sizes])

    @property
    def tokens(self) -> float:
        """Tokens that are decoded for an image: of its captions, of its samples, or of its beams."""
        if isinstance(self.settings, SelfCritical):
            return self.settings.samples * self.inputs.longest
        if isinstance(self.settings, DecodingSettings):
            return self.settings.beam * self.inputs.longest
        return self.inputs.captions * self.inputs.words


def training_shape(amounts: Amounts, training: Run) -> StepShape:
    """Return the shape of a training's steps; `processes` share the images of a step."""
    stage, recipe = amounts.stage(training), amounts.plan.recipe(training.recipe)
    images = max(1, min(stage.images_per_batch // recipe.processes, amounts.train_images(training)))
    work: Work = "xe" if training.stage == "xe" else "scst"
    return StepShape(work, _model(amounts, training), stage, amounts.step_inputs(training), images)


def decoding_shape(amounts: Amounts, run: Run, *, beam: int | None = None) -> StepShape:
    """Return the shape of decoding a batch of images as a run's recipe says, or with another beam."""
    decoding = amounts.plan.recipe(run.recipe).evaluation.decoding
    if beam is not None:
        decoding = DecodingSettings(beam=beam)
    return StepShape("decode", _model(amounts, run), decoding, amounts.step_inputs(run), decoding.batch_size)


def distinct(shapes: Iterable[StepShape]) -> list[StepShape]:
    """Return the shapes, each once."""
    return list({shape.key: shape for shape in shapes}.values())


def _model(amounts: Amounts, run: Run) -> ModelConfig:
    found: ModelConfig = amounts.plan.get("models", run.model)
    return found
