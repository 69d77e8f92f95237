"""From measured cases to the figures of a spec in gpus.toml's form."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from micro import DTYPES, Case

from gpututor.devices.virtual.cost.kernel import price
from gpututor.errors import UsageError
from gpututor.hardware.gpus import GpuSpec, gpu_spec, gpu_specs, parse_gpu_spec

Measured = Mapping[Case, float]
_FIELDS = {
    "float32": "float32",
    "tf32": "tf32",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float64": "float64_tensor",
}
_SMI = ("power.max_limit", "pcie.link.gen.max", "pcie.link.width.max", "clocks.max.sm", "clocks.max.memory")
_NEAR = 1.15
"""A rate on tensor cores is one only where it is that far above the rate without."""


def line(points: list[tuple[float, float]]) -> tuple[float, float]:
    """(seconds before the first byte, bytes a second) of copies of some (bytes, seconds).

    Each point counts by its relative error, so that small copies tell the first figure and large ones the second.
    """
    weights = [1 / seconds**2 for _, seconds in points]
    total = sum(weights)
    size = sum(w * one for w, (one, _) in zip(weights, points, strict=True)) / total
    time = sum(w * one for w, (_, one) in zip(weights, points, strict=True)) / total
    above = sum(w * (b - size) * (s - time) for w, (b, s) in zip(weights, points, strict=True))
    slope = above / sum(w * (b - size) ** 2 for w, (b, _) in zip(weights, points, strict=True))
    return max(time - slope * size, 0.0), 1 / slope


def link(measured: Measured) -> dict[str, float]:
    """GB/s of pinned and of pageable copies, each the mean of both ways, and microseconds before the first byte."""
    found: dict[tuple[bool, bool], tuple[float, float]] = {}
    for pinned in (True, False):
        for to_device in (True, False):
            points = [
                (float(case.size), seconds)
                for case, seconds in measured.items()
                if (case.what, case.pinned, case.to_device) == ("copy", pinned, to_device)
            ]
            found[pinned, to_device] = line(points)
    return {
        "pinned_gb_s": round((found[True, True][1] + found[True, False][1]) / 2e9, 1),
        # The model's figure is that to the device; the way back is slower by a factor of its own.
        "pageable_gb_s": round(found[False, True][1] / 1e9, 1),
        "latency_us": round((found[True, True][0] + found[True, False][0]) / 2 * 1e6, 1),
    }


def matrix_rates(measured: Measured) -> dict[str, dict[int, float]]:
    """FLOPs a second by type and size."""
    found: dict[str, dict[int, float]] = {}
    for case, seconds in measured.items():
        if case.what == "matmul":
            found.setdefault(case.dtype, {})[case.size] = 2 * case.size**3 / seconds
    return found


def bandwidths(measured: Measured) -> dict[int, float]:
    """Bytes a second of an addition, by the bytes that it moves."""
    return {case.size: case.size / seconds for case, seconds in measured.items() if case.what == "add"}


def launch_us(measured: Measured) -> float:
    """Microseconds that a small operator costs the host."""
    return round(next(s for case, s in measured.items() if case.what == "launch") * 1e6, 1)


def matching(reported_name: str, memory_bytes: int) -> GpuSpec | None:
    """The spec of gpus.toml that this device is, by its name and its memory; None for one that it does not have."""
    alike = [
        one
        for one in gpu_specs().values()
        if one.reported_name == reported_name and 0.85 < memory_bytes / one.memory_bytes < 1.05
    ]
    if alike:
        return alike[0]
    try:
        return gpu_spec(reported_name)
    except UsageError:
        return None


def entry(facts: Mapping[str, Any], measured: Measured, known: GpuSpec | None) -> dict[str, Any]:
    """An entry in gpus.toml's form: the facts that the driver tells, links and launch as measured.

    Rates are the vendor's where the GPU is `known`; else the peaks with which the model gives the measured times.
    """
    found = dict(facts)
    found["launch_us"] = launch_us(measured)
    found["link"] = {**facts["link"], **link(measured)}
    if known is not None:
        found["flops_t"] = {name: round(rate / 1e12, 3) for name, rate in _published(known).items()}
        found["rate_source"] = f"{known.rate_source}; links and launch measured by benchmarks/calibrate_gpu.py"
        return found
    rates = {dtype: max(by_size.values()) / 1e12 for dtype, by_size in matrix_rates(measured).items()}
    published = {_FIELDS[dtype]: rates.get(dtype, 0.0) for dtype in DTYPES}
    published |= {"float64": published["float64_tensor"], "float8": 0.0, "int8": 0.0}
    plain = published["float32"]
    for name in ("tf32", "float16", "bfloat16"):
        if published[name] < _NEAR * plain:
            published[name] = 0.0
    published["float64_tensor"] = 0.0
    found["rate_source"] = "peaks with which the model gives the times measured by benchmarks/calibrate_gpu.py"
    found["flops_t"] = published
    for _ in range(3):
        model = parse_gpu_spec("measured", found)
        for dtype, name in {**_FIELDS, "float64": "float64"}.items():
            if published[name] and dtype in rates:
                published[name] *= rates[dtype] * 1e12 / _modelled_rate(model, dtype, _largest(measured, dtype))
    found["flops_t"] = {name: round(rate, 2) for name, rate in published.items()}
    return found


def _published(known: GpuSpec) -> dict[str, float]:
    names = ("float64", "float64_tensor", "float32", "tf32", "float16", "bfloat16", "float8", "int8")
    return {name: getattr(known, f"{name}_flops") for name in names}


def _largest(measured: Measured, dtype: str) -> int:
    rates = matrix_rates(measured)[dtype]
    return max(rates, key=lambda size: rates[size])


def _modelled_rate(model: GpuSpec, dtype: str, size: int) -> float:
    kind = "float32" if dtype == "tf32" else dtype
    matrix = ((size, size), kind)
    flops = 2.0 * size**3
    found = price(model, "aten::mm", [matrix, matrix], [matrix], flops, tf32=dtype == "tf32")
    return flops / found.seconds


def toml_of(name: str, found: Mapping[str, Any]) -> str:
    """The text of an entry."""

    def value(one: Any) -> str:
        if isinstance(one, str):
            return '"' + one.replace("\\", "\\\\").replace('"', '\\"') + '"'
        if isinstance(one, dict):
            return "{ " + ", ".join(f"{key} = {value(part)}" for key, part in one.items()) + " }"
        return "[" + ", ".join(map(value, one)) + "]" if isinstance(one, list) else f"{one:g}".replace("e+", "e")

    lines = [f"{key} = {value(one)}" for key, one in found.items()]
    return f"[{value(name)}]\n" + "\n".join(lines) + "\n"


def facts_of(properties: Any, known: GpuSpec | None) -> dict[str, Any]:
    """What the driver tells of the current device, and of what it does not tell, what the known spec says."""
    told = _told()

    def of(name: str, otherwise: float) -> int:
        return round(told.get(name) or otherwise)

    memory_clock = getattr(properties, "memory_clock_rate", 0) or (known.memory_clock_khz if known else 0)
    return {
        "reported_name": properties.name,
        "memory_gib": known.memory_bytes / 2**30 if known else round(properties.total_memory / 2**30, 2),
        "capability": [properties.major, properties.minor],
        "multiprocessors": properties.multi_processor_count,
        "source": "the CUDA driver",
        "aliases": list(known.aliases) if known else [],
        "l2_cache_mib": round(getattr(properties, "L2_cache_size", 0) / 2**20) or 4,
        "memory_bus_bits": getattr(properties, "memory_bus_width", 0) or (known.memory_bus_bits if known else 256),
        "clock_mhz": of("clocks.max.sm", getattr(properties, "clock_rate", 0) / 1e3),
        "memory_clock_mhz": of("clocks.max.memory", memory_clock / 1e3),
        "chip_source": "the CUDA driver",
        "flops_t": {},
        "memory_kind": known.memory_kind if known else "HBM" if properties.memory_bus_width >= 1024 else "GDDR",
        "board_watts": of("power.max_limit", known.board_watts if known else 300),
        "link": {
            "pcie": of("pcie.link.gen.max", known.pcie_generation if known else 4),
            "lanes": of("pcie.link.width.max", known.pcie_lanes if known else 16),
            "copy_engines": known.copy_engines if known else 2,
            "peer": known.peer_link if known else "PCIe",
            "peer_gb_s": known.peer_bytes_per_s / 1e9 if known else 20.0,
        },
    }


def _told() -> dict[str, float]:
    """What nvidia-smi tells of the first GPU; nothing where it is not there."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return {}
    asked = [command, f"--query-gpu={','.join(_SMI)}", "--format=csv,noheader,nounits", "--id=0"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60).stdout.strip()
    return read_smi(answer)


def read_smi(answer: str) -> dict[str, float]:
    """The figures of one line of nvidia-smi; `[N/A]` is none."""
    found = {}
    for name, text in zip(_SMI, answer.split(","), strict=False):
        try:
            found[name] = float(text)
        except ValueError:
            continue
    return found
