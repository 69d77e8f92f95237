"""Ordinary copies: from pageable memory, and the host waits for each."""

import torch


def power_iteration(batches: list[torch.Tensor], start: torch.Tensor, passes: int) -> torch.Tensor:
    """The task's result, by blocking copies of pageable memory."""
    direction = start
    for _ in range(passes):
        total = torch.zeros_like(start)
        for batch in batches:
            on_device = batch.to(start.device)
            total += on_device.T @ (on_device @ direction)
        direction = total / total.norm()
    return direction.cpu()
