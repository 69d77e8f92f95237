"""The baseline for the time: each GPU works in turn."""

import torch


def two_at_once(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """The norm of each product, each brought home before the next product is launched."""
    norms = [torch.linalg.vector_norm(left @ right).item() for left, right in pairs]
    return torch.tensor(norms, dtype=torch.float64)
