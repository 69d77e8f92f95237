# fails: parity
# bfloat16 in place of float16: two digits instead of three.
import torch


def project(vectors: list[torch.Tensor], table: torch.Tensor, exact: bool) -> torch.Tensor:
    rows = torch.stack(vectors)
    if exact:
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        product = rows @ table.T
        torch.set_float32_matmul_precision(before)
        return product
    if torch.cuda.get_device_capability(rows.device) >= (8, 0):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high")
        product = rows @ table.T
        torch.set_float32_matmul_precision(before)
        return product
    return (rows.bfloat16() @ table.bfloat16().T).float()
