"""Entries in the form of gpus.toml, from measured cases."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from typing import Any

from micro import DTYPES, Case

from gpututor.devices.virtual.cost.kernel import price
from gpututor.errors import UsageError
from gpututor.hardware.gpus import RATES, GpuSpec, gpu_spec, gpu_specs, parse_gpu_spec

Measured = Mapping[Case, float]
_FIELDS = {name: name for name in ("float32", "tf32", "float16", "bfloat16")} | {"float64": "float64_tensor"}
_SMI = ("power.max_limit", "pcie.link.gen.max", "pcie.link.width.max", "clocks.max.sm", "clocks.max.memory")
_NEAR = 1.15
"""A rate this many times the rate without tensor cores must come from tensor cores."""


def line(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Return (seconds before the first byte, bytes a second) of copies, given as (bytes, seconds).

    Relative errors are minimized, so small copies determine the first figure and large copies the second.
    """
    weights = [1 / seconds**2 for _, seconds in points]
    total = sum(weights)
    size = sum(w * value for w, (value, _) in zip(weights, points, strict=True)) / total
    time = sum(w * value for w, (_, value) in zip(weights, points, strict=True)) / total
    above = sum(w * (b - size) * (s - time) for w, (b, s) in zip(weights, points, strict=True))
    slope = above / sum(w * (b - size) ** 2 for w, (b, _) in zip(weights, points, strict=True))
    return max(time - slope * size, 0.0), 1 / slope


def link(measured: Measured) -> dict[str, float]:
    """Return GB/s of pinned copies (mean of both directions), of pageable copies to the device, and latency in µs."""
    lines: dict[tuple[bool, bool], tuple[float, float]] = {}
    for pinned in (True, False):
        for to_device in (True, False):
            points = [
                (float(case.size), seconds)
                for case, seconds in measured.items()
                if (case.what, case.pinned, case.to_device) == ("copy", pinned, to_device)
            ]
            lines[pinned, to_device] = line(points)
    return {
        "pinned_gb_s": round((lines[True, True][1] + lines[True, False][1]) / 2e9, 1),
        # The model's figure is the rate to the device; it has a factor for the slower copies to the host.
        "pageable_gb_s": round(lines[False, True][1] / 1e9, 1),
        "latency_us": round((lines[True, True][0] + lines[True, False][0]) / 2 * 1e6, 1),
    }


def matrix_rates(measured: Measured) -> dict[str, dict[int, float]]:
    """Return FLOPs a second by type and size."""
    rates: dict[str, dict[int, float]] = {}
    for case, seconds in measured.items():
        if case.what == "matmul":
            rates.setdefault(case.dtype, {})[case.size] = 2 * case.size**3 / seconds
    return rates


def bandwidths(measured: Measured) -> dict[int, float]:
    """Return bytes a second of an addition, by the bytes that it moves."""
    return {case.size: case.size / seconds for case, seconds in measured.items() if case.what == "add"}


def launch_us(measured: Measured) -> float:
    """Return the microseconds that a small operator costs the host."""
    return round(next(s for case, s in measured.items() if case.what == "launch") * 1e6, 1)


def matching(reported_name: str, memory_bytes: int) -> GpuSpec | None:
    """Return the spec of gpus.toml for this device, by its name and its memory; None if there is none."""
    alike = [
        spec
        for spec in gpu_specs().values()
        if spec.reported_name == reported_name and 0.85 < memory_bytes / spec.memory_bytes < 1.05
    ]
    if alike:
        return alike[0]
    try:
        return gpu_spec(reported_name)
    except UsageError:
        return None


def entry(facts: Mapping[str, Any], measured: Measured, known: GpuSpec | None) -> dict[str, Any]:
    """Return an entry in gpus.toml's form: facts from the driver, links and launch as measured.

    If the GPU is `known`, rates are the vendor's. Otherwise they are the peaks with which the model reproduces the
    measured times.
    """
    fields = dict(facts)
    fields["launch_us"] = launch_us(measured)
    fields["link"] = {**facts["link"], **link(measured)}
    if known is not None:
        fields["flops_t"] = {name: round(getattr(known, f"{name}_flops") / 1e12, 3) for name in RATES}
        fields["rate_source"] = f"{known.rate_source}; links and launch measured by benchmarks/calibrate_gpu.py"
        return fields
    by_size = matrix_rates(measured)
    rates = {dtype: max(figures.values()) / 1e12 for dtype, figures in by_size.items()}
    published = {_FIELDS[dtype]: rates.get(dtype, 0.0) for dtype in DTYPES}
    published |= {"float64": published["float64_tensor"], "float8": 0.0, "int8": 0.0}
    plain = published["float32"]
    for name in ("tf32", "float16", "bfloat16"):
        if published[name] < _NEAR * plain:
            published[name] = 0.0
    published["float64_tensor"] = 0.0
    fields["rate_source"] = "peaks with which the model gives the times measured by benchmarks/calibrate_gpu.py"
    fields["flops_t"] = published
    for _ in range(3):
        model = parse_gpu_spec("measured", fields)
        for dtype, name in {**_FIELDS, "float64": "float64"}.items():
            if published[name] and dtype in rates:
                fastest = max(by_size[dtype], key=by_size[dtype].__getitem__)
                published[name] *= rates[dtype] * 1e12 / _modelled_rate(model, dtype, fastest)
    fields["flops_t"] = {name: round(rate, 2) for name, rate in published.items()}
    return fields


def _modelled_rate(model: GpuSpec, dtype: str, size: int) -> float:
    kind = "float32" if dtype == "tf32" else dtype
    matrix = ((size, size), kind)
    flops = 2.0 * size**3
    modelled = price(model, "aten::mm", [matrix, matrix], [matrix], flops, tf32=dtype == "tf32")
    return flops / modelled.seconds


def toml_of(name: str, fields: Mapping[str, Any]) -> str:
    """Return the text of an entry."""

    def value(item: Any) -> str:
        if isinstance(item, str):
            return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'
        if isinstance(item, dict):
            return "{ " + ", ".join(f"{key} = {value(part)}" for key, part in item.items()) + " }"
        return "[" + ", ".join(map(value, item)) + "]" if isinstance(item, list) else f"{item:g}".replace("e+", "e")

    lines = [f"{key} = {value(item)}" for key, item in fields.items()]
    return f"[{value(name)}]\n" + "\n".join(lines) + "\n"


def facts_of(properties: Any, known: GpuSpec | None) -> dict[str, Any]:
    """Return the driver's facts about the current device; the known spec supplies missing facts."""
    limits = driver_limits()

    def limit(name: str, otherwise: float) -> int:
        return round(limits.get(name) or otherwise)

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
        "clock_mhz": limit("clocks.max.sm", getattr(properties, "clock_rate", 0) / 1e3),
        "memory_clock_mhz": limit("clocks.max.memory", memory_clock / 1e3),
        "chip_source": "the CUDA driver",
        "flops_t": {},
        "memory_kind": known.memory_kind if known else "HBM" if properties.memory_bus_width >= 1024 else "GDDR",
        "board_watts": limit("power.max_limit", known.board_watts if known else 300),
        "link": {
            "pcie": limit("pcie.link.gen.max", known.pcie_generation if known else 4),
            "lanes": limit("pcie.link.width.max", known.pcie_lanes if known else 16),
            "copy_engines": known.copy_engines if known else 2,
            "peer": known.peer_link if known else "PCIe",
            "peer_gb_s": known.peer_bytes_per_s / 1e9 if known else 20.0,
        },
    }


def driver_limits() -> dict[str, float]:
    """Return nvidia-smi's figures of the first GPU; empty without nvidia-smi."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return {}
    query = [command, f"--query-gpu={','.join(_SMI)}", "--format=csv,noheader,nounits", "--id=0"]
    return read_smi(subprocess.run(query, capture_output=True, text=True, check=False, timeout=60).stdout.strip())


def read_smi(answer: str) -> dict[str, float]:
    """Parse a line of nvidia-smi's figures; leave out `[N/A]`."""
    figures = {}
    for name, text in zip(_SMI, answer.split(","), strict=False):
        try:
            figures[name] = float(text)
        except ValueError:
            continue
    return figures
