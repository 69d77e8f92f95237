# fails: switch
# Turns TF32 off at the end, even if the program had turned it on.
import torch


def project(vectors: list[torch.Tensor], table: torch.Tensor, exact: bool) -> torch.Tensor:
    rows = torch.stack(vectors)
    if not exact and torch.cuda.get_device_capability(rows.device) < (8, 0):
        return (rows.half() @ table.half().T).float()
    torch.set_float32_matmul_precision("highest" if exact else "high")
    product = rows @ table.T
    torch.set_float32_matmul_precision("highest")
    return product
