"""The machine that an exercise asks for, and the kinds of device that exist."""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, field
from typing import Any

ACCELERATORS = ("cuda", "mps", "xpu")
"""Backends of real accelerators. Any of them can report itself as available in a scenario."""
DRIVERS = ("fits", "missing", "too old")
"""States of NVIDIA's driver on a machine without a usable GPU."""
KINDS = ("virtual", *ACCELERATORS, "cpu")
"""Kinds of device that an exercise can allow."""
DEVICE_WORDS = f"virtual, cpu, {', '.join(ACCELERATORS[:-1])} or {ACCELERATORS[-1]}".replace("cuda", "cuda, cuda:N")
"""The devices that a learner can ask for, besides `auto`."""


def key(type_name: str, default: Any = MISSING, **limits: Any) -> Any:
    """Return a field of `Scenario`. Type and limits describe the key of the same name in exercise.toml."""
    return field(default=default, metadata={"type": type_name, **limits})


@dataclass(frozen=True)
class Scenario:
    """The machine of a run. Each field is a key of `[[scenario]]` in exercise.toml."""

    name: str = key("line", most=40)
    """Name shown to the learner, such as "one GPU" or "no GPU"."""
    gpus: int = key("whole", 1, least=0, most=8)
    """The number of devices."""
    backends: tuple[str, ...] = key("choices", ("cuda",), choices=ACCELERATORS)
    """Backends that report themselves available. Only cuda can compute on the virtual GPU."""
    gpu: str = key("line", "T4", most=40)
    """The virtual GPU's model; empty on a real device."""
    memory_mib: int | None = key("whole", None, least=1, most=1024 * 1024)
    """MiB of memory of each device; None: the memory of the model."""

    driver: str = key("choice", "fits", choices=DRIVERS)
    """The driver of a machine without GPUs: with `missing` or `too old`, CUDA's errors say so."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Scenario:
        return cls(**{**data, "backends": tuple(data["backends"])})
