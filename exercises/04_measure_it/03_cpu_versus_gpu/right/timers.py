# Times with benchmark.Timer, and computes both products once more for the comparison.
from torch.utils.benchmark import Timer


def seconds(x, y):
    return Timer("x @ y", globals={"x": x, "y": y}).timeit(3).mean


def cpu_versus_gpu(a, b, device):
    cpu_seconds = seconds(a, b)
    narrow_a, narrow_b = a.to(device).float(), b.to(device).float()
    gpu_seconds = seconds(narrow_a, narrow_b)
    product = (narrow_a @ narrow_b).cpu()
    return {
        "product": product,
        "cpu_seconds": cpu_seconds,
        "gpu_seconds": gpu_seconds,
        "speedup": cpu_seconds / gpu_seconds,
        "largest_difference": (a @ b - product).abs().max().item(),
    }
