# Computes the product with einsum, which makes some views first: that takes the host time.
import torch


def project(vectors, table, exact):
    rows = torch.stack(vectors)
    if not exact and torch.cuda.get_device_capability() < (8, 0):
        return torch.einsum("nk,mk->nm", rows.half(), table.half()).float()
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if exact else "high")
    try:
        return torch.einsum("nk,mk->nm", rows, table)
    finally:
        torch.set_float32_matmul_precision(before)
