"""Torch's dispatch with a GPU that computes nothing:
notes what waits for it, and what its process says to others.

Tensors on the CPU are real and computed as ever; those on the GPU are torch's fake tensors, with a
shape, a type and a device. What depends on their numbers is invented here, and noted as a wait with
its place in the source.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _foreach_utils
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

import recap

SOURCE = Path(recap.__file__).parent
PLAY = Path(__file__).with_name("play.py")
COPIES = ("_to_copy", "copy_")
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "conv2d", "linear", "matmul")
WORD = 3  # a token that ends no caption
NUMBER = 2  # tokens of the longest caption, where one is read
# one, because tensors that are kept pass between scenes
FAKE = FakeTensorMode(allow_non_fake_inputs=True)


class OnAnotherDevice(Exception):
    """An operator was given tensors of the CPU and of the GPU, at which a real GPU fails."""


@dataclass
class Played:
    """What happened: waits and the beginnings of backward passes
    in order, types of products, and collectives."""

    events: list[dict] = field(default_factory=list)
    products: dict[str, int] = field(default_factory=dict)
    collectives: list[str] = field(default_factory=list)
    error: str | None = None


class PlayedGpu(TorchDispatchMode):
    """Within, tensors made on or moved to "cuda" are fake."""

    def __init__(self):
        super().__init__()
        self.played, self.moving, self._flags = Played(), False, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # noqa: C901
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        if name.startswith("c10d::"):
            return self._collective(name, args)
        leaves, _ = tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        on_gpu = any(is_fake(tensor) for tensor in tensors)
        if not on_gpu and torch.device(kwargs.get("device") or "cpu").type == "cpu":
            return func(*args, **kwargs)
        if name == "to":  # of inference, where torch does not take it apart
            with self:
                return func.decompose(*args, **kwargs)
        if name in COPIES:
            return self._copied(func, args, kwargs)
        if on_gpu and any(not is_fake(tensor) and tensor.dim() for tensor in tensors):
            raise OnAnotherDevice(f"{name} of tensors on the CPU and on the GPU at {place_text()}")
        if name == "_local_scalar_dense":
            return self._number(args[0])
        if name == "nonzero":
            self.note("length")
            return self._indices(rows_left(args[0]), args[0].dim())
        if name in ("index", "index_put_", "index_put") and any(
            is_mask(index) for index in args[1]
        ):
            self.note("length")
            args = (args[0], self._without_masks(args[1]), *args[2:])
        result = FAKE.dispatch(func, types, args, kwargs)
        if name in PRODUCTS:
            kind = str(result.dtype).removeprefix("torch.")
            self.played.products[kind] = self.played.products.get(kind, 0) + 1
        return result

    def note(self, kind):
        """Note a wait of a kind, or that a backward pass begins.

        Not what a model waits for while it is moved.
        """
        if self.moving:
            return
        file, function, line = place()
        self.played.events.append({"kind": kind, "file": file, "function": function, "line": line})

    def listed(self, tensor):
        """Answer `tensor.tolist()`."""
        self.note("read")
        if hasattr(tensor, "known"):
            return tensor.known.tolist()
        return filled(tensor.shape, lambda: self._answer(tensor.dtype))

    def _answer(self, dtype):
        # of each two flags the first is False: no NaN; every second time an image leaves
        if dtype == torch.bool:
            self._flags += 1
            return self._flags % 4 == 0
        return 1.0 if dtype.is_floating_point else WORD

    def _number(self, tensor):
        self.note("read")
        if tensor.dtype == torch.bool:
            return False
        return 1.0 if tensor.is_floating_point() else NUMBER

    def _copied(self, func, args, kwargs):
        """Copy: to the CPU this is a wait, and from it too,
        but for pinned memory that is not waited for."""
        to_gpu = torch.device(kwargs.get("device") or args[0].device).type == "cuda"
        source = args[1] if len(args) > 1 else args[0]  # `copy_` has a target before it
        kind = kwargs.get("dtype") or source.dtype
        if is_fake(source) and not to_gpu:
            self.note("read")
            return torch.zeros(source.shape, dtype=kind)
        if not is_fake(source) and not (
            hasattr(source, "played_as_pinned") and kwargs.get("non_blocking")
        ):
            self.note("copy")
        with FAKE:
            if is_fake(args[0]):
                return func(*args, **kwargs)
            copy = torch.empty_strided(source.shape, source.stride(), dtype=kind, device="cuda")
        copy.known = source  # numbers that processes sum are read again
        return copy

    def _indices(self, rows, width):
        with FAKE:
            return torch.empty(rows, width, dtype=torch.long, device="cuda")

    def _without_masks(self, indices):
        """Return indices with numbers in place of masks."""
        result = []
        for index in indices:
            if is_mask(index):
                kept = 1 if index.dim() == 1 else rows_left(index)
                result += self._indices(kept, index.dim()).unbind(1)
            else:
                result.append(index)
        return result

    def _collective(self, name, args):
        tensors = [leaf for leaf in tree_flatten(args)[0] if isinstance(leaf, Tensor)]
        shapes = [
            f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}" for tensor in tensors
        ]
        self.say(name.removeprefix("c10d::"), *shapes)
        if name == "c10d::allreduce_" and hasattr(tensors[0], "known"):
            tensors[0].known = 2 * tensors[0].known  # as if the other process had the same numbers
        work = torch._C._distributed_c10d.FakeWork().boxed()
        return work if name == "c10d::barrier" else (args[0], work)

    def say(self, *words):
        """Note a collective."""
        self.played.collectives.append(" ".join(words))


def is_mask(index):
    return index is not None and index.dtype == torch.bool


def rows_left(mask):
    """All but one: of the images of a batch one leaves at a time,
    which is what indexing by their mask gives."""
    return mask.numel() - 1


def filled(shape, answer):
    return [filled(shape[1:], answer) for _ in range(shape[0])] if shape else answer()


def place():
    """Return file, function and line of the innermost code of ours."""
    frame = sys._getframe(1)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path == PLAY:
            return path.name, frame.f_code.co_qualname, frame.f_lineno
        if SOURCE in path.parents:
            return path.relative_to(SOURCE).as_posix(), frame.f_code.co_qualname, frame.f_lineno
        frame = frame.f_back
    return "", "", 0


def place_text():
    file, function, line = place()
    return f"{file}:{line} ({function})"


@contextmanager
def playing():
    """Give a GPU that is played to everything within; yield its mode."""
    gpu = PlayedGpu()
    tensor, address, backward = torch.tensor, Tensor.data_ptr, Tensor.backward

    def marked_backward(self, *args, **kwargs):
        gpu.note("backward")
        backward(self, *args, **kwargs)

    def made_on_device(data, *, device=None, **kwargs):  # torch's does not ask a mode for this
        return tensor(data, **kwargs).to(device or "cpu")

    def pinned(self):
        copy = self.clone()
        copy.played_as_pinned = True
        return copy

    changes = [
        # Fake tensors have address 0, by which products
        # of one loop would be taken for those of one weight.
        (
            Tensor,
            "data_ptr",
            lambda self: self.untyped_storage()._cdata if is_fake(self) else address(self),
        ),
        (FakeTensor, "tolist", lambda self: gpu.listed(self)),
        (Tensor, "backward", marked_backward),
        (torch, "tensor", made_on_device),
        (Tensor, "pin_memory", pinned),
        (nn.Module, "_apply", moved(gpu)),
        # For autocast, which else turns itself off.
        (torch.cuda.amp.common, "amp_definitely_not_available", lambda: False),
        (torch.cuda, "is_bf16_supported", lambda **_: True),
        # What the CPU build refuses.
        (torch.cuda, "_lazy_init", lambda: None),
        (torch.cuda, "get_rng_state", lambda *_: torch.get_rng_state()),
        (torch.cuda, "set_rng_state", lambda *_: None),
        (torch, "save", lambda *_: None),  # fake tensors have no bytes
        # Objects go to others as bytes, which fake tensors have not.
        (dist, "all_gather_object", gathered(gpu)),
        (
            dist,
            "broadcast_object_list",
            lambda box, **_: gpu.say("broadcast_object_list", str(len(box))),
        ),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in changes]
    foreach = _foreach_utils._foreach_supported_types
    foreach.append(FakeTensor)
    for owner, name, change in changes:
        setattr(owner, name, change)
    try:
        with gpu:
            yield gpu
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
        foreach.remove(FakeTensor)


def is_fake(tensor):
    return isinstance(tensor, FakeTensor)


def gathered(gpu):
    def all_gather_object(results, value):
        gpu.say("all_gather_object", str(len(results)))
        results[:] = [value] * len(results)

    return all_gather_object


def moved(gpu):
    """Return what stands for `nn.Module._apply`,
    which cannot exchange real parameters for fake ones."""

    def apply(module, change, recurse=True):
        gpu.moving, made = True, {}  # one that two modules share stays one
        for each in module.modules():
            for tensors in (each._parameters, each._buffers):
                for name, tensor in tensors.items():
                    if tensor is not None:
                        if id(tensor) not in made:
                            made[id(tensor)] = exchanged(tensor, change)
                        tensors[name] = made[id(tensor)]
        gpu.moving = False
        return module

    return apply


def exchanged(tensor, change):
    with torch.no_grad():
        value = change(tensor)
    return nn.Parameter(value, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else value
