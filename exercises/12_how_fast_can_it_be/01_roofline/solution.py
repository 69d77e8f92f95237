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
    flops = 2 * rows * inner * columns
    elements = rows * inner + inner * columns + rows * columns
    moved = elements * dtype.itemsize
    intensity, ridge = flops / moved, peak_flops / bandwidth
    return {
        "flops": flops,
        "bytes": moved,
        "intensity": intensity,
        "ridge": ridge,
        "bound": "compute" if intensity >= ridge else "memory",
        "least_seconds": max(flops / peak_flops, moved / bandwidth),
    }


if __name__ == "__main__":
    t4 = {"peak_flops": 8.1e12, "bandwidth": 320e9}
    for size in (16, 64, 256, 1024, 4096):
        result = roofline(size, size, size, torch.float32, **t4)
        least_us = result["least_seconds"] * 1e6
        print(f"{size:5}: {result['bound']:8} {least_us:10.1f} µs")
