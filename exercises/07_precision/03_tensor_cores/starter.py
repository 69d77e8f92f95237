"""Tensor cores: one large product, in a type they are made for."""

import torch


def project(
    vectors: list[torch.Tensor], table: torch.Tensor, exact: bool
) -> torch.Tensor:
    """`table` (m, k) times each of n vectors (k,): (n, m), float32.

    Inexact products may be off by 1e-3.
    """
    # TODO: one product instead of many: in full float32 if `exact`,
    # otherwise in the fastest way of this GPU.
    return torch.stack([table @ vector for vector in vectors])


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
