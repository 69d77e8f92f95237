# fails: value
# Calls a product on the ridge memory-bound.
import torch


def roofline(rows: int, inner: int, columns: int, dtype: torch.dtype, peak_flops: float, bandwidth: float) -> dict:
    flops = 2 * rows * inner * columns
    elements = rows * inner + inner * columns + rows * columns
    moved = elements * dtype.itemsize
    intensity, ridge = flops / moved, peak_flops / bandwidth
    return {
        "flops": flops,
        "bytes": moved,
        "intensity": intensity,
        "ridge": ridge,
        "bound": "compute" if intensity > ridge else "memory",
        "least_seconds": max(flops / peak_flops, moved / bandwidth),
    }
