"""Cost of an operator on CPU tensors, for the CPUs of `cpus.toml`. Imports no torch.

A roofline as for GPUs: an operator takes the time of its arithmetic or of its memory traffic, whichever is longer, plus
the overhead of the call. Arithmetic runs at a share of the peak rate. Memory traffic runs at the bandwidth of the cache
or memory that holds the tensors. PyTorch splits a kernel into pieces of a minimum size, so a small kernel runs on one
core.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path

from gpututor.devices.virtual.cost import matrices
from gpututor.devices.virtual.cost.memory_traffic import Tensors, element_bytes, is_in_place, tensor_bytes, total_bytes
from gpututor.devices.virtual.operator_facts import NO_COST, kind_of
from gpututor.errors import UsageError

_GRAIN = 32768
"""Minimum elements per thread (at::internal::GRAIN_SIZE, aten/src/ATen/Parallel.h)."""
_PRODUCT_GRAIN = 500_000
"""Minimum FLOPs per thread of a product."""
_BUSY = 0.8
"""Share of the peak memory bandwidth that all cores together achieve."""
_PRODUCT, _CONVOLUTION, _OTHERS = 0.9, 0.6, 0.1
"""Shares of the peak rate that oneMKL's products, oneDNN's convolutions and all other operators achieve."""
_CYCLES = {
    "transcendental": 1.0, "softmax": 2.5, "batch_norm": 1.0, "group_norm": 1.0, "layer_norm": 1.0,
    "norm_backward": 1.0, "softmax_backward": 1.0, "pool": 4.0, "sort": 150.0, "gather": 0.2, "scatter": 4.0,
    "scan": 3.0,
}  # fmt: skip
"""Cycles of one core per element, for kinds whose arithmetic is not counted in FLOPs (benchmarks/cpu_prices.py)."""
_FRESH, _PAGE, _FAULT_S = 32 << 20, 4096, 0.25e-6
"""Bytes from which malloc gets fresh pages, bytes of a page, and seconds to clear a page at its first touch."""
_USUAL_THREADS = 8
"""Typical cores per GPU of rented machines: 4 for a T4, 6 for an A100, 12 for an H100 (Amazon EC2 g4dn, p4d, p5)."""
_SERIAL = frozenset({"scan", "scatter", "sort"})
"""Kinds that run on one thread only."""


@dataclass(frozen=True, slots=True)
class CpuSpec:
    """Vendor's figures of one socket, and the overhead of PyTorch's operators on it."""

    name: str
    cores: int
    clock_hz: float
    """Clock of all cores under load."""
    float32_flops_per_cycle: int
    """Peak FLOPs per cycle of one core."""
    memory_bytes_per_s: float
    """Peak bandwidth of the socket."""
    l2_bytes: float
    """L2 cache of one core."""
    l3_bytes: float
    """L3 cache of the socket."""
    core_memory_bytes_per_s: float
    """Bandwidth of one core from memory; the next two fields: from the L3 cache, and from its L2 cache."""
    core_l3_bytes_per_s: float
    core_l2_bytes_per_s: float
    operator_s: float
    """Seconds to call an operator, without its kernel."""
    threads_s: float
    """Seconds to divide a kernel among threads."""
    source: str

    @property
    def float32_flops(self) -> float:
        """Peak FLOPs per second of all cores."""
        return self.cores * self.clock_hz * self.float32_flops_per_cycle

    def bytes_per_s(self, working_set: float, threads: int) -> float:
        """Return the bandwidth of `threads` threads from the nearest cache or memory that holds the working set."""
        if working_set <= self.l2_bytes * threads:
            return threads * self.core_l2_bytes_per_s
        if working_set <= self.l3_bytes:
            return threads * self.core_l3_bytes_per_s
        return min(threads * self.core_memory_bytes_per_s, _BUSY * self.memory_bytes_per_s)


@cache
def all_cpus() -> dict[str, CpuSpec]:
    """Return the CPUs of `cpus.toml` by name, in the file's order."""
    entries = tomllib.loads((Path(__file__).parent / "cpus.toml").read_text(encoding="utf-8"))
    return {
        name: CpuSpec(
            name, row["cores"], row["clock_ghz"] * 1e9, row["float32_flops_per_cycle"], row["memory_gb_s"] * 1e9,
            row["l2_mib"] * 2**20, row["l3_mib"] * 2**20, row["core_gb_s"]["memory"] * 1e9,
            row["core_gb_s"]["l3"] * 1e9, row["core_gb_s"]["l2"] * 1e9, row["operator_us"] / 1e6,
            row["threads_us"] / 1e6, row["source"],
        )
        for name, row in entries.items()
    }  # fmt: skip


def cpu_spec(name: str = "") -> CpuSpec:
    """Return the CPU of that name, or the first CPU; raise `UsageError` for an unknown name."""
    known = all_cpus()
    if not name:
        return next(iter(known.values()))
    for spec in known.values():
        if spec.name.casefold() == name.casefold():
            return spec
    raise UsageError(f"No CPU is called {name!r}.", f"Known: {', '.join(known)}.")


def cpu_price_s(
    cpu: CpuSpec,
    name: str,
    inputs: Tensors,
    outputs: Tensors,
    flops: float = 0.0,
    *,
    threads: int | None = None,
) -> float:
    """Return the seconds of an operator, including its call.

    `name`, tensors and `flops` are those of `cost.kernel.price`. `threads` limits PyTorch's threads, 8 by default.
    """
    kind = kind_of(name)
    if kind == NO_COST:
        return cpu.operator_s / 2
    most = max(min(threads or _USUAL_THREADS, cpu.cores), 1)
    elements = max((prod(shape) for shape, _ in (*inputs, *outputs)), default=0)
    moved = total_bytes(inputs) + total_bytes(outputs)
    flops = flops or matrices.product_flops(kind, inputs)
    pieces = int(max(elements / _GRAIN, flops / _PRODUCT_GRAIN))
    used = 1 if kind in _SERIAL else max(min(pieces, most), 1)
    widest = max((element_bytes(dtype) for _, dtype in (*inputs, *outputs)), default=4)
    share = _PRODUCT if kind == "matmul" else _CONVOLUTION if kind.startswith(("convolution", "attention")) else _OTHERS
    # Half precision is computed in float32.
    rate = cpu.clock_hz * cpu.float32_flops_per_cycle * used * share / (2 if widest >= 8 else 1)
    computed = max(flops, elements) / rate + elements * _CYCLES.get(kind, 0.0) / (cpu.clock_hz * used)
    fresh = sum(size for size in map(tensor_bytes, outputs) if size >= _FRESH and not is_in_place(name))
    kernel = max(computed, moved / cpu.bytes_per_s(moved, used)) + fresh / _PAGE * _FAULT_S / used
    return cpu.operator_s + kernel + (cpu.threads_s if used > 1 else 0.0)
