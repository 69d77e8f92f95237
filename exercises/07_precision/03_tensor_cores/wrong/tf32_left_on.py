# fails: switch
# Leaves TF32 on until the next exact product: other code's products are inexact until then.
import torch


def project(vectors: list[torch.Tensor], table: torch.Tensor, exact: bool) -> torch.Tensor:
    rows = torch.stack(vectors)
    if exact:
        torch.set_float32_matmul_precision("highest")
        return rows @ table.T
    if torch.cuda.get_device_capability(rows.device) >= (8, 0):
        torch.set_float32_matmul_precision("high")
        return rows @ table.T
    return (rows.half() @ table.half().T).float()
