"""Cost of detecting work that the modelled clock cannot price, compared with a small operator.

Run it with `python benchmarks/unpriced.py [ROUNDS]`. Each round first times additions of two small tensors, as in a
graded exercise. It then times the two clock readings that each addition makes. Times are processor times. The smallest
figures count, because a busy machine only adds to them. Nothing is asserted.
"""

from __future__ import annotations

import sys
from time import perf_counter_ns, process_time  # bound here: inside the block, those of `time` are virtual

import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import virtual_gpu
from gpututor.devices.virtual.execution.host_work import SHORT_NS, SLOW_NS, Meter

REPEATS = 2_000


def additions_us() -> float:
    """Return the microseconds of an addition on the virtual GPU."""
    with virtual_gpu(recorder=Recorder([__file__])):
        x = torch.ones(4, 4, device="cuda")
        began = process_time()
        for _ in range(REPEATS):
            x + x
        return (process_time() - began) / REPEATS * 1e6


def readings_us() -> float:
    """Return the microseconds of an operator's measurement."""
    meter = Meter()
    began = process_time()
    for _ in range(REPEATS):
        mine, now = meter, perf_counter_ns()
        if now - mine.last > SHORT_NS:
            mine.pause(now)
        mine.last = now
        try:
            pass
        finally:
            now = perf_counter_ns()
            length = now - mine.last
            mine.within += length if length < SLOW_NS else mine.slow(length)
            mine.last = now
    return (process_time() - began) / REPEATS * 1e6


def main() -> None:
    torch.set_num_threads(1)
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    pairs = [(additions_us(), readings_us()) for _ in range(rounds)]
    addition, readings = (min(pair[place] for pair in pairs) for place in (0, 1))
    print(f"an addition {addition:.2f} µs, of which detection {readings:.2f} µs: {readings / addition:.1%}")


if __name__ == "__main__":
    main()
