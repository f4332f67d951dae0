"""Communication between the processes of a run (torchrun; gloo on CPUs, nccl on GPUs).

A run in one process has a world of size 1, where these functions do nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True)
class World:
    """The rank of this process, the number of processes, and its device."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @classmethod
    def join(cls, device: torch.device) -> World:
        """Join the processes that torchrun started, each on its own GPU if `device` is one; or this process alone."""
        if "WORLD_SIZE" not in os.environ:
            return cls(device=device)
        cuda = device.type == "cuda"
        if cuda:
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
            torch.cuda.set_device(device)
        if not dist.is_initialized():
            dist.init_process_group("nccl" if cuda else "gloo")
        return cls(dist.get_rank(), dist.get_world_size(), device)

    @property
    def leads(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module with its gradients averaged over all processes."""
        if self.size == 1 or not any(parameter.requires_grad for parameter in module.parameters()):
            return module
        on_gpu = self.device.type == "cuda"
        return DistributedDataParallel(module, device_ids=[self.device] if on_gpu else None)

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def gather(self, value: Any) -> list[Any]:
        """Every process's value, in the order of ranks."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def agree(self, wish: bool) -> bool:
        """The value of the leading process, in every process."""
        return bool(self.sum(torch.tensor(float(wish and self.leads), device=self.device)) > 0)

    def wait(self) -> None:
        """Wait until all processes have called this."""
        if self.size > 1:
            dist.barrier()

    def leave(self) -> None:
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()
