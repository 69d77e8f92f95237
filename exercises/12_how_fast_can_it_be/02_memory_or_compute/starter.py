"""Memory or compute: what limits a kernel, by its time."""

import time
from collections.abc import Callable

import torch


def what_limits(
    work: Callable[[], object],
    flops: int,
    moved: int,
    peak_flops: float,
    bandwidth: float,
) -> dict:
    """Time a call of `work`, and find what limits it.

    It computes `flops` and moves `moved` bytes. The GPU can do
    `peak_flops` FLOP/s and move `bandwidth` bytes/s.
    """
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    # TODO: time ten calls correctly, and compute the shares.
    return {
        "seconds": seconds,
        "flops_share": 0.0,
        "bandwidth_share": 0.0,
        "limit": "launch",
    }


if __name__ == "__main__":
    if torch.cuda.is_available():
        x = torch.randn(1024, 1024, device="cuda")
        counts = {"flops": 2 * 1024**3, "moved": 12 * 1024**2}
        t4 = {"peak_flops": 8.1e12, "bandwidth": 320e9}
        print(what_limits(lambda: x @ x, **counts, **t4))
    else:
        print("This needs a CUDA device: try `gpututor run`.")
