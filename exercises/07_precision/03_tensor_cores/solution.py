"""Tensor cores: one large product, in a type they are made for."""

import torch


def project(
    vectors: list[torch.Tensor], table: torch.Tensor, exact: bool
) -> torch.Tensor:
    """`table` (m, k) times each of n vectors (k,): (n, m), float32.

    Inexact products may be off by 1e-3.
    """
    rows = torch.stack(vectors)
    has_tf32 = torch.cuda.get_device_capability(rows.device) >= (8, 0)
    if not exact and not has_tf32:
        return (rows.half() @ table.half().T).float()
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest" if exact else "high")
    product = rows @ table.T
    torch.set_float32_matmul_precision(before)
    return product


if __name__ == "__main__":
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    vectors = [torch.randn(64, device=device) for _ in range(256)]
    table = torch.randn(1000, 64, device=device)
    true = project(vectors, table, exact=True)
    print(true.shape, true.dtype, true.device)
    if device.type == "cuda":
        fast = project(vectors, table, exact=False)
        error = (fast - true).norm() / true.norm()
        print(f"relative error of the fast way: {error.item():.1e}")
    else:
        print("The fast way needs a CUDA GPU.")
