"""Cost of compiled code: Inductor's fused kernels, the host's work for each call, and compilation.

The host's figures are fitted to the programs of `benchmarks/data/h200_compile.json`, measured on an H200. Their unit is
the launch of an elementwise operator (`GpuSpec.launch_s`), because a slow host is slow at both.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpututor.devices.virtual.cost.calibration import calibrated
from gpututor.hardware.gpus import GpuSpec

FLOOR_S = 1e-6
"""Seconds of the shortest generated kernel. ATen's kernels take longer: they first compute their arguments."""
_PER_THREAD = 4
"""Elements that a thread of a generated kernel computes."""
_PER_LOAD = 25
"""Instructions for each load in a window: address, mask, and the operation on the element."""
_BLOCKS = 4
"""Blocks of a reduction that run concurrently on a multiprocessor."""
_CALL, _BACKWARD, _KERNEL = 3.0, 8.0, 1.0
"""Host time of a call of compiled code, in launches: guards and wrappers, a backward pass, each kernel."""
_DYNAMO_S, _GRAPH_S, _BACKWARD_S, _PER_KERNEL_S = 0.05, 0.35, 0.4, 0.04


@dataclass(frozen=True, slots=True)
class FusedKernel:
    """Sizes of a generated kernel, with the values of a call's symbols."""

    bytes: int
    """Bytes read and written, each buffer once."""
    elements: int
    """Elements of its loops, a reduction's included."""
    operations: int
    """Operators on each element."""
    dtype: str
    repeated: int = 0
    """Bytes that a second loop reads again, over rows that are too long for registers."""
    row: int = 1
    """Elements of a row that it reduces."""
    window: int = 0
    """Extra loads per element, beyond one from each buffer, such as for the windows of pooling."""


def fused(spec: GpuSpec, kernel: FusedKernel) -> tuple[float, float]:
    """Return the seconds of a generated kernel and the share of the GPU that it fills.

    The longer of moving its bytes and computing its operators: Triton's kernels read coalesced blocks, at the bandwidth
    of ATen's elementwise kernels.
    """
    gpu = calibrated(spec)
    instructions = kernel.elements * (kernel.operations + kernel.window * _PER_LOAD)
    computed = instructions * 2 / gpu.plain_rate(kernel.dtype)
    fill = gpu.filled(kernel.elements / _PER_THREAD)
    # Each concurrent block has a row. If these rows fit the L2 cache, the later loops read them there.
    rows = min(gpu.multiprocessors * _BLOCKS, kernel.elements / max(kernel.row, 1))
    share = rows * kernel.row / max(kernel.elements, 1)
    moved = gpu.moved_s(kernel.bytes) + gpu.moved_s(kernel.repeated, kernel.repeated * share)
    return max(moved, computed) + FLOOR_S, fill


def call_s(spec: GpuSpec, *, backward: bool) -> float:
    """Return the host's seconds for a call of compiled code, or of its backward pass, without its launches."""
    return spec.launch_s * (_CALL + (_BACKWARD if backward else 0.0))


def launch_s(spec: GpuSpec) -> float:
    """Return the host's seconds to launch a generated kernel, or a whole CUDA graph."""
    return spec.launch_s * _KERNEL


def compile_s(kernels: int, *, trains: bool) -> float:
    """Return the host's seconds to compile a graph; `kernels` counts its forward and backward kernels."""
    return _DYNAMO_S + _GRAPH_S + _PER_KERNEL_S * kernels + (_BACKWARD_S if trains else 0.0)
