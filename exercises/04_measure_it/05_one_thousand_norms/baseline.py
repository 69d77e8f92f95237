"""The slow way: each norm is read before the next product begins."""

import torch


def norms(matrices: list[torch.Tensor]) -> torch.Tensor:
    """The same, with a wait for each matrix."""
    return torch.tensor([(matrix @ matrix).norm().item() for matrix in matrices])
