"""The GPUs that the virtual GPU can pretend to be, for people who choose among them. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gpututor.paths import PACKAGE

GPUS_FILE = PACKAGE / "devices" / "virtual" / "gpus.toml"


@dataclass(frozen=True)
class GpuModel:
    """One GPU, by what a learner compares."""

    name: str
    """Such as `T4`."""
    memory_bytes: int
    bytes_per_s: float
    """Peak bandwidth of the memory."""
    float32_flops: float
    """Peak rate without tensor cores."""
    float16_flops: float
    """Peak rate on tensor cores; 0 where there are none for it."""
    capability: tuple[int, int]


@cache
def models() -> tuple[GpuModel, ...]:
    """All of them, in the file's order."""
    import tomllib

    entries = tomllib.loads(GPUS_FILE.read_text(encoding="utf-8"))
    return tuple(
        GpuModel(
            name,
            int(entry["memory_gib"] * 2**30),
            # Memory moves two words a cycle.
            2 * entry["memory_clock_mhz"] * 1e6 * entry["memory_bus_bits"] / 8,
            entry["flops_t"]["float32"] * 1e12,
            entry["flops_t"]["float16"] * 1e12,
            (entry["capability"][0], entry["capability"][1]),
        )
        for name, entry in entries.items()
    )


def model_names() -> tuple[str, ...]:
    return tuple(model.name for model in models())
