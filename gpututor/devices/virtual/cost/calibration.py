"""What a GPU attains of its spec sheet, by the fitted factors of `calibration.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpututor.hardware.gpus import GpuSpec

CalibrationFactors = Mapping[str, float]
"""By section and name, such as `matmul.tensor`."""

_L2_WHOLE, _L2_NONE = 0.25, 0.5
"""Shares of the L2 cache: a working set up to the first stays there between kernels, one beyond the second does not."""


@cache
def fitted() -> dict[str, float]:
    """The factors of calibration.toml."""
    sections = tomllib.loads((Path(__file__).parent / "calibration.toml").read_text(encoding="utf-8"))
    return {
        f"{section}.{name}": float(value)
        for section, all_of_it in sections.items()
        for name, value in all_of_it.items()
    }


@dataclass(frozen=True, slots=True)
class AchievableRates:
    """Rates that real kernels reach on one GPU."""

    spec: GpuSpec
    factors: CalibrationFactors
    bytes_per_s: float
    clock_hz: float
    """Under load: a board of little power slows it."""
    float32: float
    """FLOPs a second of a large matrix product without tensor cores."""
    float64: float
    multiprocessors: int
    lanes: int
    """Of float32, in the whole GPU."""
    threads: int
    """That the GPU holds at once."""
    tensor_share: float
    """Of the tensor cores' peak that a large matrix product reaches, clock under load."""

    def tensor_rate(self, dtype: str, tf32: bool) -> float:
        """FLOPs a second of tensor cores at their peak, clock under load; 0 where there are none for the type."""
        spec = self.spec
        rates = {"float32": spec.tf32_flops if tf32 else 0.0, "float16": spec.float16_flops}
        rates |= {
            "float64": spec.float64_tensor_flops,
            "bfloat16": spec.bfloat16_flops,
            "int8": spec.int8_flops,
            "uint8": spec.int8_flops,
        }
        peak = spec.float8_flops if dtype.startswith("float8") else rates.get(dtype, 0.0)
        return peak * self.clock_hz / (spec.clock_khz * 1e3)

    def plain_rate(self, dtype: str) -> float:
        """FLOPs a second of a large matrix product without tensor cores."""
        return self.float64 if dtype in ("float64", "complex128") else self.float32

    def moved_s(self, moved: float, working_set: float | None = None) -> float:
        """Seconds to move so many bytes; a working set that fits the L2 cache is read there."""
        held = (moved if working_set is None else working_set) / self.spec.l2_cache_bytes
        outside = min(max((held - _L2_WHOLE) / (_L2_NONE - _L2_WHOLE), 0.0), 1.0)
        return moved / self.bytes_per_s * (outside + (1 - outside) / self.factors["memory.l2_speedup"])

    def filled(self, threads: float) -> float:
        """The share of the GPU that so many threads occupy."""
        return min(max(threads, 1.0) / self.threads, 1.0)


def attainable(spec: GpuSpec, factors: CalibrationFactors) -> AchievableRates:
    """What the GPU attains with these factors."""
    lanes = spec.multiprocessors * spec.float32_lanes_per_multiprocessor
    hertz = spec.clock_khz * 1e3
    watts = factors["power.watts_{}_{}".format(*spec.capability)] * lanes * hertz / 1e9
    kept = min(1.0, spec.board_watts / watts)
    memory = "hbm" if spec.memory_kind.startswith("HBM") else "gddr_ecc" if "ECC" in spec.memory_kind else "gddr"
    share = factors[f"matmul.float32_{spec.float32_lanes_per_multiprocessor}_lanes"] * kept
    return AchievableRates(
        spec, factors, spec.bytes_per_s * factors[f"memory.{memory}"], hertz * kept, spec.float32_flops * share,
        spec.float64_flops * share, spec.multiprocessors, lanes, spec.multiprocessors * spec.threads_per_multiprocessor,
        factors["matmul.tensor_8" if spec.capability[0] == 8 else "matmul.tensor"],
    )  # fmt: skip


@cache
def calibrated(spec: GpuSpec) -> AchievableRates:
    """What the GPU attains with the fitted factors."""
    return attainable(spec, fitted())
