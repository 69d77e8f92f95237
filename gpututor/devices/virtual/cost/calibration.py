"""Rates that a GPU achieves: the rates of its spec sheet times the fitted factors of `calibration.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpututor.hardware.gpus import GpuSpec

CalibrationFactors = Mapping[str, float]
"""Fitted factor by section and name, such as `matmul.tensor`."""

_L2_WHOLE, _L2_NONE = 0.4, 0.8
"""A working set below the first share of the L2 cache stays cached between kernels; above the second, none does."""


@cache
def fitted() -> dict[str, float]:
    """Return the factors of `calibration.toml`."""
    sections = tomllib.loads((Path(__file__).parent / "calibration.toml").read_text(encoding="utf-8"))
    return {f"{key}.{name}": float(value) for key, section in sections.items() for name, value in section.items()}


@dataclass(frozen=True, slots=True)
class AchievableRates:
    """Rates that real kernels achieve on one GPU."""

    spec: GpuSpec
    factors: CalibrationFactors
    bytes_per_s: float
    clock_hz: float
    """Clock under load, reduced if the board's power limit requires it."""
    float32: float
    """FLOPs per second of a large float32 matrix product without tensor cores; `float64` for float64."""
    float64: float
    multiprocessors: int
    lanes: int
    """Float32 lanes of the whole GPU."""
    threads: int
    """Resident threads of the whole GPU."""
    tensor_share: float
    """Share of the tensor cores' peak that a large matrix product achieves, at the clock under load."""
    unaligned_share: float
    """Share of that rate for half precision if rows do not begin at multiples of 16 bytes."""

    def tensor_rate(self, dtype: str, tf32: bool) -> float:
        """Return the tensor cores' peak in FLOPs per second, at the clock under load; 0 if they lack the dtype."""
        spec = self.spec
        rates = {
            "float32": spec.tf32_flops if tf32 else 0.0, "float16": spec.float16_flops, "bfloat16": spec.bfloat16_flops,
            "float64": spec.float64_tensor_flops, "int8": spec.int8_flops, "uint8": spec.int8_flops,
        }  # fmt: skip
        peak = spec.float8_flops if dtype.startswith("float8") else rates.get(dtype, 0.0)
        return peak * self.clock_hz / (spec.clock_khz * 1e3)

    def plain_rate(self, dtype: str) -> float:
        """Return the FLOPs per second of a large matrix product without tensor cores."""
        return self.float64 if dtype in ("float64", "complex128") else self.float32

    def moved_s(self, moved: float, working_set: float | None = None) -> float:
        """Return the seconds to move `moved` bytes. A working set that fits the L2 cache is read from the cache."""
        share = (moved if working_set is None else working_set) / self.spec.l2_cache_bytes
        outside = min(max((share - _L2_WHOLE) / (_L2_NONE - _L2_WHOLE), 0.0), 1.0)
        return moved / self.bytes_per_s * (outside + (1 - outside) / self.factors["memory.l2_speedup"])

    def filled(self, threads: float) -> float:
        """Return the share of the GPU, from 0 to 1, that this number of threads occupies."""
        return min(max(threads, 1.0) / self.threads, 1.0)


def attainable(spec: GpuSpec, factors: CalibrationFactors) -> AchievableRates:
    """Return the rates of the GPU with these factors."""
    lanes = spec.multiprocessors * spec.float32_lanes_per_multiprocessor
    hertz = spec.clock_khz * 1e3
    watts = factors["power.watts_{}_{}".format(*spec.capability)] * lanes * hertz / 1e9
    throttle = min(1.0, spec.board_watts / watts)
    memory = "hbm" if spec.memory_kind.startswith("HBM") else "gddr_ecc" if "ECC" in spec.memory_kind else "gddr"
    share = factors[f"matmul.float32_{spec.float32_lanes_per_multiprocessor}_lanes"] * throttle
    return AchievableRates(
        spec, factors, spec.bytes_per_s * factors[f"memory.{memory}"], hertz * throttle, spec.float32_flops * share,
        spec.float64_flops * share, spec.multiprocessors, lanes, spec.multiprocessors * spec.threads_per_multiprocessor,
        factors.get(f"matmul.tensor_{spec.capability[0]}", factors["matmul.tensor"]),
        factors.get(f"matmul.unaligned_{spec.capability[0]}", factors["matmul.unaligned"]),
    )  # fmt: skip


@cache
def calibrated(spec: GpuSpec) -> AchievableRates:
    """Return the rates of the GPU with the fitted factors."""
    return attainable(spec, fitted())
