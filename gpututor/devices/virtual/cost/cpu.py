"""What an operator on CPU tensors costs, on a CPU that cpus.toml names. Imports no torch.

A roofline as for GPUs: the arithmetic at a share of the peak rate, or the bytes at the bandwidth of the cache or the
memory that holds them, whichever takes longer, plus what the operator costs the thread that calls it. PyTorch shares
a kernel out among threads in pieces of some size, so that a small one runs on one core.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path

from gpututor.devices.virtual.cost import matrices
from gpututor.devices.virtual.cost.memory_traffic import is_in_place
from gpututor.devices.virtual.cost.registry import Tensor, element_bytes, tensor_bytes, total_bytes
from gpututor.devices.virtual.operator_facts import NO_COST, kind_of
from gpututor.errors import UsageError

_GRAIN = 32768
"""Elements that one thread takes at least (at::internal::GRAIN_SIZE, aten/src/ATen/Parallel.h)."""
_PRODUCT_GRAIN = 500_000
"""FLOPs that one thread takes at least in a product."""
_BUSY = 0.8
"""Share of the peak bandwidth of the memory that all cores together draw."""
_PRODUCT, _CONVOLUTION, _OTHERS = 0.9, 0.6, 0.1
"""Shares of the peak rate that oneMKL's products attain, oneDNN's convolutions, and everything else."""
_CYCLES = {
    "transcendental": 1.0, "softmax": 2.5, "batch_norm": 1.0, "group_norm": 1.0, "layer_norm": 1.0,
    "norm_backward": 1.0, "softmax_backward": 1.0, "pool": 4.0, "sort": 150.0, "gather": 0.2, "scatter": 4.0,
    "scan": 3.0,
}  # fmt: skip
"""Cycles of one core for each element, where the arithmetic is not counted in FLOPs: benchmarks/cpu_prices.py."""
_FRESH, _PAGE, _FAULT_S = 32 << 20, 4096, 0.25e-6
"""From this size on the C library asks the system for fresh pages, each of which is cleared at its first touch."""
_USUAL_THREADS = 8
"""Cores that a rented machine has for each GPU: 4 beside a T4, 6 beside an A100, 12 beside an H100 (Amazon EC2 instance
types g4dn, p4d, p5)."""
_SERIAL = frozenset({"scan", "scatter", "sort"})
"""Kinds that run on one thread."""


@dataclass(frozen=True, slots=True)
class CpuSpec:
    """What a vendor says about one socket, and what PyTorch's operators cost on it."""

    name: str
    cores: int
    clock_hz: float
    """Of all cores under load."""
    float32_flops_per_cycle: int
    """Of one core."""
    memory_bytes_per_s: float
    """Peak of the socket."""
    l2_bytes: float
    """Of one core."""
    l3_bytes: float
    """Of the socket."""
    core_memory_bytes_per_s: float
    """What one core draws from the memory, the L3 and its L2 cache."""
    core_l3_bytes_per_s: float
    core_l2_bytes_per_s: float
    operator_s: float
    """What an operator costs the thread that calls it, its kernel not included."""
    threads_s: float
    """What it costs to share a kernel out among threads."""
    source: str

    @property
    def float32_flops(self) -> float:
        """Peak rate a second, of all cores."""
        return self.cores * self.clock_hz * self.float32_flops_per_cycle

    def bytes_per_s(self, working_set: float, threads: int) -> float:
        """What so many threads draw from the nearest place that holds the working set."""
        if working_set <= self.l2_bytes * threads:
            return threads * self.core_l2_bytes_per_s
        if working_set <= self.l3_bytes:
            return threads * self.core_l3_bytes_per_s
        return min(threads * self.core_memory_bytes_per_s, _BUSY * self.memory_bytes_per_s)


@cache
def all_cpus() -> dict[str, CpuSpec]:
    """Every CPU of cpus.toml by its name, in the file's order."""
    entries = tomllib.loads((Path(__file__).parent / "cpus.toml").read_text(encoding="utf-8"))
    return {
        name: CpuSpec(
            name, one["cores"], one["clock_ghz"] * 1e9, one["float32_flops_per_cycle"], one["memory_gb_s"] * 1e9,
            one["l2_mib"] * 2**20, one["l3_mib"] * 2**20, one["core_gb_s"]["memory"] * 1e9,
            one["core_gb_s"]["l3"] * 1e9, one["core_gb_s"]["l2"] * 1e9, one["operator_us"] / 1e6,
            one["threads_us"] / 1e6, one["source"],
        )
        for name, one in entries.items()
    }  # fmt: skip


def cpu_spec(name: str = "") -> CpuSpec:
    """The CPU of that name, or the first one; raises `UsageError` for an unknown name."""
    known = all_cpus()
    if not name:
        return next(iter(known.values()))
    for one in known.values():
        if one.name.casefold() == name.casefold():
            return one
    raise UsageError(f"No CPU is called {name!r}.", f"Known: {', '.join(known)}.")


def cpu_price_s(
    cpu: CpuSpec,
    name: str,
    inputs: Sequence[Tensor],
    outputs: Sequence[Tensor],
    flops: float = 0.0,
    *,
    threads: int | None = None,
) -> float:
    """Seconds that an operator takes the thread that calls it, the call included.

    Names, tensors and `flops` as `cost.price` takes them. `threads` is how many PyTorch may use, by
    default the eight cores that a rented machine often has for each GPU.
    """
    kind = kind_of(name)
    if kind == NO_COST:
        return cpu.operator_s / 2
    most = max(min(threads or _USUAL_THREADS, cpu.cores), 1)
    elements = max((prod(one[0]) for one in (*inputs, *outputs)), default=0)
    moved = total_bytes(inputs) + total_bytes(outputs)
    flops = flops or matrices.product_flops(kind, inputs)
    pieces = int(max(elements / _GRAIN, flops / _PRODUCT_GRAIN))
    used = 1 if kind in _SERIAL else max(min(pieces, most), 1)
    widest = max((element_bytes(one[1]) for one in (*inputs, *outputs)), default=4)
    share = _PRODUCT if kind == "matmul" else _CONVOLUTION if kind.startswith(("convolution", "attention")) else _OTHERS
    # Half precision is computed in float32.
    rate = cpu.clock_hz * cpu.float32_flops_per_cycle * used * share / (2 if widest >= 8 else 1)
    computed = max(flops, elements) / rate + elements * _CYCLES.get(kind, 0.0) / (cpu.clock_hz * used)
    fresh = sum(size for size in map(tensor_bytes, outputs) if size >= _FRESH and not is_in_place(name))
    kernel = max(computed, moved / cpu.bytes_per_s(moved, used)) + fresh / _PAGE * _FAULT_S / used
    return cpu.operator_s + kernel + (cpu.threads_s if used > 1 else 0.0)
