# Asks tensors without memory for their bytes, and compares the intensity with the ridge.
import torch


def roofline(rows, inner, columns, dtype, peak_flops, bandwidth):
    shapes = ((rows, inner), (inner, columns), (rows, columns))
    moved = sum(torch.empty(shape, dtype=dtype, device="meta").nbytes for shape in shapes)
    flops = rows * columns * (inner + inner)
    result = {"flops": flops, "bytes": moved, "intensity": flops / moved, "ridge": peak_flops / bandwidth}
    if result["intensity"] < result["ridge"]:
        return {**result, "bound": "memory", "least_seconds": moved / bandwidth}
    return {**result, "bound": "compute", "least_seconds": flops / peak_flops}
