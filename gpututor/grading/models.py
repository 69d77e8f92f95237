"""The GPUs that the virtual GPU can pretend to be, for people who choose among them. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from gpututor.errors import UsageError
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
    spellings: tuple[str, ...]
    """Other names of it."""


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
            (entry["reported_name"], *entry["aliases"]),
        )
        for name, entry in entries.items()
    )


def model_names() -> tuple[str, ...]:
    return tuple(model.name for model in models())


def model_called(words: str) -> str:
    """The model's name, in any spelling that `gpututor.devices.virtual.specs.spec` takes too.

    Raises `UsageError` with the nearest name for an unknown one.
    """
    import difflib

    spellings = {_folded(each): model.name for model in models() for each in (model.name, *model.spellings)}
    folded = _folded(words)
    if folded in spellings:
        return spellings[folded]
    near = difflib.get_close_matches(folded, spellings, n=1, cutoff=0.3)
    nearest = f"The nearest name is {spellings[near[0]]!r}. " if near else ""
    raise UsageError(f"No GPU is called {words!r}.", f"{nearest}Known: {', '.join(model_names())}.")


def _folded(name: str) -> str:
    import re

    plain = re.sub(r"[^a-z0-9]", "", name.casefold())
    return re.sub("^(nvidia|tesla|geforce)+", "", plain).removesuffix("gb")
