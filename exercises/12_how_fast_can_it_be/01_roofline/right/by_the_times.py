# Compares the two times instead of intensity and ridge: max() takes the first of equal times.
import torch


def roofline(rows, inner, columns, dtype, peak_flops, bandwidth):
    size = torch.empty((), dtype=dtype).element_size()
    moved = size * sum((rows * inner, inner * columns, rows * columns))
    flops = rows * columns * inner * 2
    times = {"compute": flops / peak_flops, "memory": moved / bandwidth}
    bound = max(times, key=times.get)
    return {
        "flops": flops,
        "bytes": moved,
        "intensity": flops / moved,
        "ridge": peak_flops / bandwidth,
        "bound": bound,
        "least_seconds": times[bound],
    }
