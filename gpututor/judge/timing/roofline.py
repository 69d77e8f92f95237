"""The roofline: the least time of work on a device, from bytes over peak bandwidth and operations over peak rate.

A program that is faster did not do the work where or when it was timed.
"""

from __future__ import annotations

import math
import timeit
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from gpututor.checks.model import Machine, SpeedLimit
from gpututor.checks.trees import tensors_by_path
from gpututor.errors import UsageError
from gpututor.hardware.gpus import GpuSpec, gpu_spec, gpu_specs
from gpututor.protocol.values import ObservedTensor

CPU_MARGIN = 4.0
"""Factor from a CPU's best measured rates to its peak: caches and cores may not have been at their best."""


@dataclass(frozen=True)
class Peak:
    """The highest rates of a device."""

    bytes_per_s: float
    flops: Callable[[str], float]
    """Rate for results of a dtype, such as `float32`, in any precision that the device may use for it."""

    def least_s(self, limit: SpeedLimit, drawn: dict[str, Any], output: Any) -> float:
        """Return the least seconds of one call, by its inputs and its result."""
        tensors = list(tensors_by_path(output).values())
        moved = limit.least_bytes(drawn) if limit.least_bytes else sum(map(minimum_bytes, tensors))
        seconds = moved / self.bytes_per_s
        if limit.least_flops is not None:
            fastest = max((self.flops(tensor.fact.dtype) for tensor in tensors), default=self.flops("float16"))
            seconds = max(seconds, limit.least_flops(drawn) / fastest)
        return seconds


def minimum_bytes(tensor: ObservedTensor) -> int:
    """Return the bytes written for a result, without dimensions that are only expanded."""
    lengths = zip(tensor.fact.shape, tensor.fact.strides, strict=True)
    elements = math.prod(length for length, stride in lengths if stride)
    return elements * tensor.values.element_size()


def peak_of(machine: Machine) -> Peak:
    """Return a known GPU's peak by its vendor's figures, an unknown GPU's by the fastest known, a CPU's as measured."""
    if machine.device == "cpu":
        return _cpu_peak()
    try:
        candidates = [gpu_spec(machine.gpu_name)]
    except UsageError:
        candidates = list(gpu_specs().values())
    fastest = max(gpu.bytes_per_s for gpu in candidates)
    return Peak(fastest, lambda dtype: max(_rate(gpu, dtype) for gpu in candidates))


def _rate(gpu: GpuSpec, dtype: str) -> float:
    match dtype:
        case "float64" | "complex128":
            return max(gpu.float64_flops, gpu.float64_tensor_flops)
        case "float32" | "complex64":
            return max(gpu.float32_flops, gpu.tf32_flops)
    return max(gpu.float32_flops, gpu.float16_flops, gpu.bfloat16_flops, gpu.int8_flops)


@cache
def _cpu_peak() -> Peak:
    small = torch.ones(1 << 16)  # 256 KiB: in the second-level cache
    copy = torch.empty_like(small)
    bytes_per_s = 2 * small.nbytes / _fastest(lambda: copy.copy_(small), 50)
    square = torch.ones(384, 384)
    product = torch.empty_like(square)
    flops = 2 * 384**3 / _fastest(lambda: torch.mm(square, square, out=product), 10)
    full = ("float32", "float64", "complex64", "complex128")
    # Half precision and int8 have instructions of up to 16 times float32's rate.
    return Peak(CPU_MARGIN * bytes_per_s, lambda dtype: CPU_MARGIN * flops * (1 if dtype in full else 16))


def _fastest(work: Callable[[], object], times: int) -> float:
    return min(timeit.repeat(work, number=1, repeat=times))
