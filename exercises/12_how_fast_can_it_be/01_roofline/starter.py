"""Roofline: the least time of a matrix product, by FLOPs and bytes."""

import torch


def roofline(
    rows: int,
    inner: int,
    columns: int,
    dtype: torch.dtype,
    peak_flops: float,
    bandwidth: float,
) -> dict:
    """Bound the time of a product of (rows, inner) and (inner, columns).

    `peak_flops` is in FLOP/s, `bandwidth` in bytes/s.
    """
    flops = rows * inner * columns
    # TODO: count the FLOPs, the bytes, and compare the two times.
    return {"flops": flops, "least_seconds": flops / peak_flops}


if __name__ == "__main__":
    t4 = {"peak_flops": 8.1e12, "bandwidth": 320e9}
    for size in (16, 64, 256, 1024, 4096):
        print(size, roofline(size, size, size, torch.float32, **t4))
