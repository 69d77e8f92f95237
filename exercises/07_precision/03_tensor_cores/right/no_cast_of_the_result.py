# The float16 product gives its result in float32, without a cast.
import torch


def project(vectors: list[torch.Tensor], table: torch.Tensor, exact: bool) -> torch.Tensor:
    rows = torch.stack(vectors)
    if not exact and torch.cuda.get_device_capability(table.device) < (8, 0):
        return torch.mm(rows.half(), table.half().T, out_dtype=torch.float32)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if exact else "high")
    product = rows @ table.T
    torch.set_float32_matmul_precision(before)
    return product
