# fails: gpu_time
# One product, but always in float32 without TF32: the matrix units are idle.
import torch


def project(vectors: list[torch.Tensor], table: torch.Tensor, exact: bool) -> torch.Tensor:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    product = torch.stack(vectors) @ table.T
    torch.set_float32_matmul_precision(before)
    return product
