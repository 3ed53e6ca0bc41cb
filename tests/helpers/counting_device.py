"""Torch's meta device, on which code goes the ways of a GPU:
counts launches and waits, and invents what is read."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

DEVICE = torch.device("meta")
# Operators that only look at memory differently, or reserve it: no kernel is launched.
FREE = {
    "alias", "as_strided", "detach", "diagonal", "empty", "empty_like", "empty_strided", "expand",
    "lift_fresh", "new_empty", "new_empty_strided", "permute", "select", "slice", "split",
    "split_with_sizes", "squeeze", "t", "transpose", "unbind", "unfold", "unsqueeze", "view",
    "_unsafe_view",
}  # fmt: skip


class CountingDevice(TorchDispatchMode):
    """Notes launches (operators, in order)
    and waits ("read" or "length", launches before) within a `with` block."""

    def __init__(self, *, real):
        """`real` is the number of elements that an index of unknown length has."""
        super().__init__()
        self.real, self.launches, self.waits = real, [], []

    def note(self, name):
        self.launches.append(name)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.removeprefix("aten::")
        if name == "_local_scalar_dense" and args[0].is_meta:
            return self._wait("read", 1.0 if args[0].is_floating_point() else 1)
        if name == "nonzero":
            return self._wait(
                "length", torch.empty(self.real, args[0].dim(), dtype=torch.long, device=DEVICE)
            )
        if name == "index" and args[1][0].dtype == torch.bool:
            mask = args[1][0]
            return self._wait("length", args[0].new_empty(self.real, *args[0].shape[mask.dim() :]))
        if name not in FREE:
            self.note(name)
        return func(*args, **(kwargs or {}))

    def _wait(self, kind, answer):
        self.waits.append((kind, len(self.launches)))
        self.note(kind)
        return answer

    def attention(self, query, key, value, attn_mask=None, is_causal=False):
        """Stand for torch's fused attention: one kernel, and one for its gradient."""
        self.note("attention" if attn_mask is None else "masked attention")
        return _Attention.apply(query, key, value, self)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, device):
        ctx.save_for_backward(query, key, value)
        ctx.device = device
        return torch.empty_like(query[..., : value.shape[-1]])

    @staticmethod
    def backward(ctx, grad):
        ctx.device.note("attention's gradient")
        return *(torch.empty_like(x) for x in ctx.saved_tensors), None
