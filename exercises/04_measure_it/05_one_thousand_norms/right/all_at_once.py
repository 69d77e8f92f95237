# One product of all matrices, and one norm of all products.
import torch


def norms(matrices: list[torch.Tensor]) -> torch.Tensor:
    together = torch.stack(matrices)
    return torch.linalg.matrix_norm(together @ together).to("cpu")
