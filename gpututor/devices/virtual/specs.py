"""The GPUs that the virtual GPU can pretend to be, read from `gpus.toml`. Imports no torch."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from gpututor.errors import UsageError

_FILE = Path(__file__).with_name("gpus.toml")


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """What a vendor says about one GPU."""

    name: str
    """The name in gpus.toml, such as `T4`."""
    reported_name: str
    """What `torch.cuda.get_device_name()` says, such as `Tesla T4`."""
    memory_bytes: int
    capability: tuple[int, int]
    """CUDA's compute capability, such as (7, 5)."""
    multiprocessors: int
    source: str
    """The document that the figures are from."""


@cache
def all_specs() -> dict[str, GpuSpec]:
    """Every GPU of gpus.toml by its name, in the file's order."""
    specs = {}
    for name, entry in tomllib.loads(_FILE.read_text(encoding="utf-8")).items():
        major, minor = entry["capability"]
        specs[name] = GpuSpec(
            name,
            entry["reported_name"],
            int(entry["memory_gib"] * 2**30),
            (major, minor),
            entry["multiprocessors"],
            entry["source"],
        )
    return specs


def model_names() -> list[str]:
    """The names that `spec` knows."""
    return list(all_specs())


def spec(name: str) -> GpuSpec:
    """The GPU of that name, in any case; raises `UsageError` with the nearest name for an unknown one."""
    by_folded = {known.casefold(): found for known, found in all_specs().items()}
    folded = name.casefold().strip()
    if folded in by_folded:
        return by_folded[folded]
    near = get_close_matches(folded, by_folded, n=1, cutoff=0.3)
    nearest = f"The nearest name is {by_folded[near[0]].name!r}. " if near else ""
    raise UsageError(f"No GPU is called {name!r}.", f"{nearest}Known: {', '.join(model_names())}.")
