import torch


def norms(matrix: torch.Tensor) -> torch.Tensor:
    return matrix.square().sum(dim=1).sqrt()
