"""Cost of a Triton kernel, from the recorded work of its programs.

As in a roofline (Williams, Waterman, Patterson, CACM 52(4), 2009), a launch takes the longest of three times: memory,
arithmetic plus products, and latency.

- **memory**: bytes that were not in the L2 cache, at the attainable bandwidth; and all sectors that warps touched, at
  the L2's bandwidth. A warp's access moves whole 32-byte sectors (CUDA C++ Best Practices Guide, "Coalesced Access to
  Global Memory"). A multiprocessor gets at most 64 bytes a cycle from the L2 (NVIDIA A100 white paper, "L2 cache").
- **arithmetic**: elementwise operations on the float32 lanes. Functions such as exp run on special function units,
  which have an eighth of the lanes (CUDA C++ Programming Guide, "Arithmetic Instructions": 16 of 128 results a cycle).
- **products**: FLOPs of `tl.dot` on tensor cores, by dtype. Tiles smaller than 128 x 128 reuse their operands less:
  the factor is that of a tile's arithmetic intensity (NVIDIA, Matrix Multiplication Background, "Tile Quantization").
- **latency**: one program's accesses, one after another, each to the L2 cache or to memory (Luo et al., Benchmarking
  and Dissecting the NVIDIA Hopper GPU, 2024: about 270 and 480 cycles). `num_stages` buffers overlap the accesses of
  products. Other accesses overlap as measured on an H100: a loop over rows in the L2 cache takes 93 cycles a row.

Programs run in waves. Each multiprocessor holds as many programs as its threads and shared memory allow. The last wave
takes as long as a full wave (NVIDIA, GPU Performance Background, "Wave Quantization").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from gpututor.devices.virtual.cost.calibration import AchievableRates
from gpututor.devices.virtual.cost.kernel import Price

_SECTOR = 32
_L2_BYTES_PER_CYCLE = 64
"""Bytes that a multiprocessor gets from the L2 cache in a cycle."""
_SPECIAL_COST = 8
"""Plain operations that take as long as an operation of the special function units."""
_L2_LATENCY_CYCLES = 270
_LATENCY_CYCLES = 480
_ACCESSES_AT_ONCE = 3
"""Number of memory accesses that overlap in a loop without products."""
_FULL_TILE = 128
_BLOCKS_AT_MOST = 32
"""Programs that a multiprocessor holds at most (CUDA C++ Programming Guide, "Technical Specifications")."""
_REGISTERS = 65_536
"""Registers of a multiprocessor."""
_REGISTERS_OVERHEAD = 24
"""Registers of a thread for addresses and masks, beyond the values of its largest block."""


@dataclass(frozen=True)
class LaunchWork:
    """Work of all programs of a launch."""

    programs: int
    num_warps: int = 4
    num_stages: int = 3
    requested_bytes: int = 0
    """Bytes that loads, stores and atomics request."""
    sectors: int = 0
    """Sectors that warps touched."""
    dram_sectors: int = 0
    """Sectors that were not in the L2 cache."""
    distinct_sectors: int = 0
    accesses: int = 0
    """Load and store instructions of all programs."""
    most_atomics_at_one: int = 0
    """Atomic operations on the element that gets the most: the memory serves one a cycle."""
    plain: Mapping[str, int] = field(default_factory=dict)
    """Elementwise floating-point operations by dtype."""
    integer: int = 0
    special: int = 0
    dot: Mapping[tuple[str, str, tuple[int, int, int]], int] = field(default_factory=dict)
    """FLOPs of products by dtype, precision and shape of the tiles."""
    largest_elements: int = 0
    """Elements of the largest block."""
    tile_bytes: int = 0
    """Bytes of the operands of a product in shared memory."""
    least_bytes: int = 0

    @property
    def flops(self) -> float:
        return float(sum(self.plain.values()) + self.special + sum(self.dot.values()))


@dataclass(frozen=True)
class Occupancy:
    """Programs that a multiprocessor holds at once, with the estimated resources of a program."""

    registers: int
    """Registers of a thread."""
    shared_bytes: int
    programs: int


def occupancy(gpu: AchievableRates, work: LaunchWork) -> Occupancy:
    """Return the estimated resources of a program, and the programs that fit on a multiprocessor."""
    threads = 32 * work.num_warps
    registers = min(255, _REGISTERS_OVERHEAD + ceil(work.largest_elements / threads))
    shared = work.tile_bytes * max(1, work.num_stages - 1)
    # Each warp of a reduction puts its value into shared memory.
    shared = min(max(shared, 4 * work.num_warps * 32), gpu.spec.shared_bytes_per_block_at_most)
    fits = (
        _BLOCKS_AT_MOST,
        gpu.spec.threads_per_multiprocessor // threads,
        _REGISTERS // (registers * threads),
        gpu.spec.shared_bytes_per_multiprocessor // shared,
    )
    return Occupancy(registers, shared, max(1, min(fits)))


def launch_price(gpu: AchievableRates, work: LaunchWork) -> Price:
    if work.programs <= 0:
        return Price(0.0, 0, 0.0, 0.0)
    resident = occupancy(gpu, work).programs
    slots = resident * gpu.multiprocessors
    waves = ceil(work.programs / slots)
    busy = min(work.programs, gpu.multiprocessors)
    # A multiprocessor without a program, and the empty slots of the last wave, add nothing.
    tail = ceil(work.programs / gpu.multiprocessors) * gpu.multiprocessors / work.programs
    memory = max(
        gpu.moved_s(work.dram_sectors * _SECTOR, work.distinct_sectors * _SECTOR),
        work.sectors * _SECTOR * gpu.factors["memory.l2_speedup"] ** -1 / gpu.bytes_per_s,
        work.sectors * _SECTOR / (busy * _L2_BYTES_PER_CYCLE * gpu.clock_hz),
        work.most_atomics_at_one / gpu.clock_hz,
    )
    float64 = work.plain.get("float64", 0) / gpu.plain_rate("float64")
    other = sum(count for dtype, count in work.plain.items() if dtype != "float64") + work.integer
    # A multiplication with an addition counts two FLOPs of the peak: an operation here is one instruction.
    arithmetic = float64 + 2 * (other + _SPECIAL_COST * work.special) / gpu.float32
    compute = (arithmetic + sum(_dot_s(gpu, *key, flops) for key, flops in work.dot.items())) * tail
    missed = work.dram_sectors / work.sectors if work.sectors else 0.0
    cycles = (_L2_LATENCY_CYCLES + missed * (_LATENCY_CYCLES - _L2_LATENCY_CYCLES)) / _ACCESSES_AT_ONCE
    if work.dot:
        cycles = _LATENCY_CYCLES / max(1, work.num_stages - 1)
    latency = waves * work.accesses / work.programs * cycles / gpu.clock_hz
    seconds = max(memory, compute, latency) + gpu.factors["memory.floor_us"] / 1e6
    fill = min(1.0, work.programs / slots)
    return Price(seconds, work.least_bytes, work.flops, fill)


def _dot_s(gpu: AchievableRates, dtype: str, precision: str, shape: tuple[int, int, int], flops: int) -> float:
    m, n, _ = shape
    tf32 = "IEEE" not in precision.upper()
    rate = gpu.tensor_rate(dtype, tf32) * gpu.tensor_share
    if not rate:
        return flops / gpu.plain_rate(dtype)
    if "X3" in precision.upper():
        rate /= 3
    harmonic = 2 * m * n / (m + n)
    return flops / (rate * min(1.0, harmonic / _FULL_TILE))
