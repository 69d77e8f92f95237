# fails: gpu_time
# Only allows TF32: a T4 has none, and computes in float32.
import torch


def project(vectors: list[torch.Tensor], table: torch.Tensor, exact: bool) -> torch.Tensor:
    rows = torch.stack(vectors)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if exact else "high")
    product = rows @ table.T
    torch.set_float32_matmul_precision(before)
    return product
