"""GPU models that the virtual GPU can simulate: the only reader of `gpus.toml` and `capabilities.toml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gpututor.errors import UsageError

_HERE = Path(__file__).parent
_MAKERS = re.compile(r"^(nvidia|tesla|geforce)+")
RATES = ("float64", "float64_tensor", "float32", "tf32", "float16", "bfloat16", "float8", "int8")
"""Keys of `flops_t` in gpus.toml; `GpuSpec` has each as `float64_flops` and so on."""
_HEADING = re.compile(r'^\["?([^"\]]+)"?\]$', re.MULTILINE)


class GpuSpec(NamedTuple):  # made in a third of a dataclass's 2 ms
    """Figures of one GPU from its vendor's documents."""

    name: str
    """The name in gpus.toml, such as `T4`."""
    reported_name: str
    """The result of `torch.cuda.get_device_name()`, such as `Tesla T4`."""
    memory_bytes: int
    capability: tuple[int, int]
    """CUDA's compute capability, such as (7, 5)."""
    multiprocessors: int
    source: str
    """Source of the memory, the capability and the multiprocessors."""
    aliases: tuple[str, ...]
    l2_cache_bytes: int
    memory_bus_bits: int
    clock_khz: int
    """Highest clock of the multiprocessors."""
    memory_clock_khz: int
    chip_source: str
    """Source of the cache, the bus and the clocks."""
    threads_per_multiprocessor: int
    shared_bytes_per_multiprocessor: int
    shared_bytes_per_block_at_most: int
    float32_lanes_per_multiprocessor: int
    load_units_per_multiprocessor: int
    float64_flops: float
    """Peak operations per second, as for all rates below: dense, with float32 accumulation."""
    float64_tensor_flops: float
    """Rate on tensor cores; 0 if they do not support float64."""
    float32_flops: float
    """Rate without tensor cores."""
    tf32_flops: float
    """Rate on tensor cores, as the four rates below; 0 if they do not support the type."""
    float16_flops: float
    bfloat16_flops: float
    float8_flops: float
    int8_flops: float
    memory_kind: str
    """A name such as `HBM3` or `GDDR6 ECC`."""
    board_watts: int
    launch_s: float
    """Host seconds for an operator, including Python, on a typical host of this GPU."""
    pcie_generation: int
    pcie_lanes: int
    pinned_bytes_per_s: float
    """Typical bandwidth in one direction, from or to pinned host memory."""
    pageable_bytes_per_s: float
    copy_latency_s: float
    copy_engines: int
    peer_link: str
    """The link between the GPUs of one machine: `PCIe`, or NVLink and its generation."""
    peer_bytes_per_s: float
    """Bandwidth in one direction between two GPUs of one machine."""
    rate_source: str
    """Source of the rates, the power and the links."""

    @property
    def bytes_per_s(self) -> float:
        """Peak bandwidth of the memory, which transfers two words per cycle."""
        return 2 * self.memory_clock_khz * 1e3 * self.memory_bus_bits / 8


@cache
def _entries(file: str) -> dict[str, Any]:
    import tomllib  # 4 ms: names of GPUs need only their headings

    return tomllib.loads((_HERE / file).read_text(encoding="utf-8"))


def parse_gpu_spec(name: str, entry: Mapping[str, Any]) -> GpuSpec:
    """Return the GPU that an entry in gpus.toml's form describes."""
    major, minor = entry["capability"]
    limits = _entries("capabilities.toml")[f"{major}.{minor}"]
    rates, link = entry["flops_t"], entry["link"]
    return GpuSpec._make(
        (
            name,
            entry["reported_name"],
            int(entry["memory_gib"] * 2**30),
            (major, minor),
            entry["multiprocessors"],
            entry["source"],
            tuple(entry["aliases"]),
            entry["l2_cache_mib"] << 20,
            entry["memory_bus_bits"],
            entry["clock_mhz"] * 1000,
            entry["memory_clock_mhz"] * 1000,
            entry["chip_source"],
            limits["threads_per_multiprocessor"],
            limits["shared_kib_per_multiprocessor"] << 10,
            limits["shared_kib_per_block_at_most"] << 10,
            limits["float32_lanes_per_multiprocessor"],
            limits["load_units_per_multiprocessor"],
            *(rates[name] * 1e12 for name in RATES),
            entry["memory_kind"],
            entry["board_watts"],
            entry["launch_us"] / 1e6,
            link["pcie"],
            link["lanes"],
            link["pinned_gb_s"] * 1e9,
            link["pageable_gb_s"] * 1e9,
            link["latency_us"] / 1e6,
            link["copy_engines"],
            link["peer"],
            link["peer_gb_s"] * 1e9,
            entry["rate_source"],
        )
    )


@cache
def gpu_specs() -> dict[str, GpuSpec]:
    """Return every GPU of gpus.toml by its name, in the file's order."""
    return {name: parse_gpu_spec(name, entry) for name, entry in _entries("gpus.toml").items()}


@cache
def gpu_names() -> tuple[str, ...]:
    """Return the names of all GPUs in the file's order, from its headings: parsing the whole file takes 3 ms."""
    return tuple(_HEADING.findall((_HERE / "gpus.toml").read_text(encoding="utf-8")))


def normalized(name: str) -> str:
    """Normalize the spelling of a name: `NVIDIA A100-SXM4-80GB` and `a100 sxm4 80` give the same result."""
    return _MAKERS.sub("", re.sub(r"[^a-z0-9]", "", name.casefold())).removesuffix("gb")


@cache
def _by_spelling() -> dict[str, GpuSpec]:
    return {
        normalized(spelling): spec
        for spec in gpu_specs().values()
        for spelling in (spec.name, spec.reported_name, *spec.aliases)
    }


def gpu_spec(name: str) -> GpuSpec:
    """Return the GPU of that name, in any usual spelling. Raises `UsageError` with the nearest name."""
    spellings = _by_spelling()
    spelling = normalized(name)
    if spelling in spellings:
        return spellings[spelling]
    from gpututor.fuzzy import likely_meant  # only a wrong name pays for it

    near = dict.fromkeys(
        spellings[known].name for known in likely_meant(spelling, spellings, lambda known: (known,), most=3)
    )
    question = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
    raise UsageError(f"No GPU is called {name!r}.", f"{question}Known: {', '.join(gpu_names())}.")
