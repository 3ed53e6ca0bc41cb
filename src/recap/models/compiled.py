"""The passes of a training under `torch.compile`:
few kernels, which CUDA graphs replay without the host.

Captions are padded to whole buckets of tokens, so that there are few shapes. A recurrent model
compiles one word, which its loop calls. The step of a search is one graph too, whose sizes are
those of the word; each of its words is recorded once for a number of images, which therefore leave
a search together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from recap.core.errors import TrainingError, first_line
from recap.core.log import log
from recap.data.vocabulary import PAD
from recap.models.base import Captioner
from recap.models.state import State
from recap.nn.rows import PackedIndex

BUCKET = 8  # tokens
Result = TypeVar("Result")


def compile_passes(model: Captioner, *, backend: str | Callable[..., Any] = "inductor") -> None:
    """Compile, in place, the passes that have a gradient and the step of searches.

    Values differ by rounding.
    """
    on_gpu = any(parameter.is_cuda for parameter in model.parameters())
    mode = "reduce-overhead" if on_gpu and backend == "inductor" else None
    for name in model.compiled_passes:
        plain = getattr(model, name)
        compiled = torch.compile(plain, backend=backend, mode=mode)
        setattr(model, name, _with_gradient(plain, compiled, begins=name == "encode"))

    def decode_words(tokens: Tensor, index: PackedIndex, memory: Any) -> Tensor:
        longer = pad(tokens, (0, -tokens.shape[-1] % BUCKET if model.in_buckets else 0), value=PAD)
        return index.pack(model.decode(longer, memory)[..., : tokens.shape[-1], :])

    plain_step = model.step
    compiled_step = torch.compile(model.step, backend=backend, mode=mode, dynamic=True)

    def step(tokens: Tensor, state: State[Any]) -> tuple[Tensor, State[Any]]:
        # Sizes 0 and 1 would have graphs of their own.
        alike = state.position > 1 and len(tokens) > 1
        return (compiled_step if alike else plain_step)(tokens, state)

    model.decode_words = decode_words  # type: ignore[method-assign]
    model.step = step  # type: ignore[method-assign]


def _with_gradient(
    plain: Callable[..., Any], compiled: Callable[..., Any], *, begins: bool
) -> Callable[..., Any]:
    """Return a pass that is compiled where a gradient is needed; `begins`: calls begin a step."""

    def run(*inputs: Any) -> Any:
        if begins:  # what graphs of the step before have written is no longer read
            torch.compiler.cudagraph_mark_step_begin()
        return (compiled if torch.is_grad_enabled() else plain)(*inputs)

    return run


def is_compiled(model: nn.Module) -> TypeGuard[Captioner[Any, Any]]:
    """Return whether the passes of a model are compiled."""
    return "decode_words" in vars(model)


def falling_back_to_eager(
    model: nn.Module, function: Callable[[], Result], *, alone: bool
) -> Result:
    """Call a function; where it fails with compiled passes, say so, and call it again with eager
    ones.

    The second call draws the random numbers of the first. A process that is not alone stops: what
    it said to the others before it failed would be said twice.
    """
    if not is_compiled(model):
        return function()
    device = next(model.parameters()).device
    random_state = torch.get_rng_state()
    gpu_random_state = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    try:
        return function()
    except RuntimeError as error:
        if not alone:
            raise TrainingError(
                "execution.compile: the compiled step of one of several processes fails "
                f"({first_line(error)}); set `compile: false`"
            ) from error
        log.warning(
            f"execution.compile: the compiled step fails ({first_line(error)}); trained without it"
        )
        torch.set_rng_state(random_state)
        if gpu_random_state is not None:
            torch.cuda.set_rng_state(gpu_random_state, device)
        for name in (*model.compiled_passes, "decode_words", "step"):
            delattr(model, name)  # the class has the plain one
        return function()
