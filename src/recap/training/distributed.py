"""Data-parallel training over processes that torchrun started:
``torchrun --nproc-per-node 2 -m recap train ...``.

Each process takes its shard of every global batch. Losses are means over the tokens of the global
batch, so without dropout the numbers are those of one process; with dropout each process draws its
own masks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

Item = TypeVar("Item")


@dataclass(frozen=True)
class Group:
    """The processes that train together; one alone by default."""

    rank: int = 0
    size: int = 1
    device: torch.device = torch.device("cpu")

    @property
    def is_main(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def shard(self, items: Sequence[Item]) -> list[Item]:
        """Return this process's part of a global batch; it may be empty."""
        return list(items[self.rank :: self.size])

    def all_reduce_sum(self, *numbers: float) -> list[float]:
        """Return the sums of numbers over all processes."""
        if self.size == 1:
            return list(numbers)
        totals = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(totals)
        return totals.tolist()

    def broadcast_from_main(self, names: Sequence[str]) -> list[str]:
        """Return the names that the main process passed."""
        if self.size == 1:
            return list(names)
        box = [list(names)]
        dist.broadcast_object_list(box, src=0, device=self.device)
        return box[0]

    def all_reduce_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace every gradient by its sum over all processes.

        A process without a batch adds zeros.
        """
        if self.size == 1:
            return
        parameters = [parameter for parameter in parameters if parameter.requires_grad]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        for parameter, piece in zip(
            parameters, flat.split([p.numel() for p in parameters]), strict=True
        ):
            parameter.grad = piece.view_as(parameter)

    def random_states(self) -> dict[str, Tensor]:
        """Return the random states of all processes, [size, bytes], of CPU and used GPU."""
        states = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self.device)
        all_states = [states for _ in range(self.size)]
        if self.size > 1:
            dist.all_gather_object(all_states, states)
        stacked = {}
        for kind in states:
            stacked[kind] = torch.stack([each[kind] for each in all_states])
        return stacked

    def barrier(self) -> None:
        """Wait until all processes are here."""
        if self.size > 1:
            dist.barrier()

    def destroy(self) -> None:
        """Leave the process group."""
        if self.size > 1:
            dist.destroy_process_group()


def init_group(device: torch.device) -> Group:
    """Meet the other processes that torchrun started; without torchrun this process is alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        return Group(device=device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return Group(dist.get_rank(), size, device)
