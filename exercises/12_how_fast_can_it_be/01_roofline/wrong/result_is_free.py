# fails: value
# Forgets that the result has to be written.
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
    elements = rows * inner + inner * columns
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
