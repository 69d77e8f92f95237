# Sets the switch by its newer name, and restores it even after an error.
import torch


def project(vectors: list[torch.Tensor], table: torch.Tensor, exact: bool) -> torch.Tensor:
    rows = torch.stack(vectors)
    matmul = torch.backends.cuda.matmul
    capable = torch.cuda.get_device_capability(table.device) >= (8, 0)
    if not (exact or capable):
        return torch.mm(rows.half(), table.half().mT).float()
    before = matmul.fp32_precision
    try:
        matmul.fp32_precision = "ieee" if exact else "tf32"
        return torch.mm(rows, table.mT)
    finally:
        matmul.fp32_precision = before
