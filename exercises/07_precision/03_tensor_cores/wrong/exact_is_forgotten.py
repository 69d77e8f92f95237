# fails: exact
# Always takes the fast way, even if `exact` is true.
import torch


def project(vectors: list[torch.Tensor], table: torch.Tensor, exact: bool) -> torch.Tensor:
    rows = torch.stack(vectors)
    if torch.cuda.get_device_capability(rows.device) >= (8, 0):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        product = rows @ table.T
        torch.set_float32_matmul_precision(before)
        return product
    return (rows.half() @ table.half().T).float()
