# fails: value
# Counts the bytes from bits, with a division: a float.
import torch


def roofline(rows: int, inner: int, columns: int, dtype: torch.dtype, peak_flops: float, bandwidth: float) -> dict:
    flops = 2 * rows * inner * columns
    elements = rows * inner + inner * columns + rows * columns
    moved = elements * torch.finfo(dtype).bits / 8
    intensity, ridge = flops / moved, peak_flops / bandwidth
    return {
        "flops": flops,
        "bytes": moved,
        "intensity": intensity,
        "ridge": ridge,
        "bound": "compute" if intensity >= ridge else "memory",
        "least_seconds": max(flops / peak_flops, moved / bandwidth),
    }
