"""How a job is computed, not what: nothing here decides whether a finished run reruns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from recap.core.errors import ConfigError
from recap.settings.base import Strict


class Execution(Strict):
    """Key ``execution`` of a profile, and of a recipe as the defaults of its runs.

    None of these enters a spec or the identity of a run: a profile on another machine plans nothing because of them.
    """

    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: a GPU if there is one")
    threads: PositiveInt = Field(1, description="CPU threads of one training or evaluation job; sums differ with them")
    nodes: PositiveInt = Field(
        1, description="machines of a Slurm cluster that share the `processes` of a training; other jobs have one"
    )
    tf32: bool = Field(
        True, description="a GPU's float32 products of a training in TF32 (10 bits of mantissa); false: in full float32"
    )
    compile: bool = Field(False, description="torch.compile the model (worth it on a GPU)")
    activation_checkpointing: bool = Field(
        False, description="compute activations anew in the backward pass: less memory, more time"
    )
    features_in_memory: bool = Field(
        False, description="keep the training features in the device's memory; refused where they do not fit"
    )
    checkpoint_minutes: PositiveFloat = Field(5.0, description="full state is saved at least this often")
    extraction_parts: PositiveInt = Field(
        1, description="of each feature store; every part is a job with its own GPU, and one more job merges them"
    )
    keep_state: bool = Field(
        False, description="refuse to start over if there is a state of other settings, inputs or source"
    )

    def per_node(self, processes: int) -> int:
        """Return how many of the processes of a training each of its nodes has; one process is on one node.

        Raises:
            ConfigError: the nodes cannot share them equally.
        """
        here, left = divmod(processes, self.nodes if processes > 1 else 1)
        if left:
            raise ConfigError(f"execution.nodes: {self.nodes} nodes cannot share {processes} processes equally")
        return here

    def over(self, defaults: Execution) -> Execution:
        """Return ``defaults`` with what is set here in their place."""
        set_in_either = [each.model_dump(exclude_unset=True) for each in (defaults, self)]
        return Execution(**{key: value for values in set_in_either for key, value in values.items()})


class ExecutionFile(Execution):
    """What ``--execution`` of a job takes: the keys of a profile, and more.

    The workflow adds the labels of the runs. A training that is cut short is for looking at a model: no profile can ask
    for it, because its result is not that of its spec, while its inputs, settings and source are the same.
    """

    max_steps: PositiveInt | None = Field(
        None, exclude=True, description="number of training steps, then stop; 100 by default where one batch is overfit"
    )
    overfit_one_batch: bool = Field(
        False, exclude=True, description="take the first batch at every step: the loss of a sound model comes near 0"
    )
    labels: dict[str, str] = Field({}, exclude=True, description="<setting>/<stage> -> what messages call its runs")

    @property
    def is_short(self) -> bool:
        """Whether a training is cut short."""
        return self.max_steps is not None or self.overfit_one_batch


# Keys of before that are keys of `execution` now.
_MOVED = {
    "device": "device",
    "threads": "threads",
    "compile": "compile",
    "recompute": "activation_checkpointing",
    "resident_features": "features_in_memory",
    "checkpoint_minutes": "checkpoint_minutes",
}


def refuse_moved(values: Any) -> Any:
    """Return settings as they are, unless they hold a key that is one of ``execution`` now.

    Raises:
        ValueError: says where the key went.
    """
    if isinstance(values, Mapping):
        for key in _MOVED.keys() & values.keys():
            new = _MOVED[key]
            raise ValueError(
                f"`{key}` went to the key `execution` of the profile or recipe: write execution: "
                f"{{{new}: {str(values[key]).lower()}}}"
            )
    return values
