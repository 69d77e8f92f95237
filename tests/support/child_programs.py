"""Programs of child processes, which import this module."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import Dataset

GPUS_AT_IMPORT = torch.cuda.device_count()


def report(index: int) -> dict[str, Any]:
    """Return what a child process sees of the machine."""
    return {
        "gpus": torch.cuda.device_count(),
        "at import": GPUS_AT_IMPORT,
        "name": torch.cuda.get_device_name(index),
        "memory": torch.cuda.mem_get_info(index)[1],
        "tensor": str(torch.ones(1, device=f"cuda:{index}")),
    }


def put_report(index: int, answers: Any) -> None:
    answers.put(report(index))


def double_in_place(questions: Any, answers: Any) -> None:
    """Wait for a device tensor, double it, and answer with its description."""
    tensor = questions.get(timeout=60)
    tensor.mul_(2)
    answers.put((str(tensor), tensor.requires_grad, type(tensor).__name__))
    # A tensor of this process must be taken before this process ends.
    answers.put(tensor + 1)
    questions.get(timeout=60)


class OnDevice(Dataset[torch.Tensor]):
    """Items that are computed on the device."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((2,), float(index), device="cuda:1").cpu()


class StayingOnDevice(Dataset[tuple[torch.Tensor, int]]):
    """Items that are left on the device."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((2,), float(index), device="cuda:1"), index
