"""Agreement of the prices of compiled programs with times measured on an H100 PCIe.

python benchmarks/compiled_prices.py [--programs]

The programs are KernelBench's level 1 and the odd numbers of level 2; the model may be fitted to these. Their kernels
(`data/compiled_programs.json`) come from Inductor's schedule on the virtual GPU. If compiling changes the measured time
by 10 % or more, the model must get the direction right: faster or slower.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from statistics import median
from typing import Any

from programs import DATA, Operator, measured, modelled_s, within, within_quarter
from unseen import unseen

from gpututor.devices.virtual.cost import compiled
from gpututor.devices.virtual.cost.calibration import calibrated
from gpututor.devices.virtual.cost.kernel import Layout, launches, price
from gpututor.hardware.gpus import gpu_spec

MODEL = "H100 PCIe"
PROGRAMS = DATA.with_name("compiled_programs.json")
GAIN = 0.1
"""Relative change of the measured time from which the direction counts."""


@dataclass(frozen=True)
class Compiled:
    """A compiled program: its measured seconds, eager and compiled, and its kernels."""

    name: str
    eager_s: float
    seconds: float
    graphs: tuple[tuple[Any, ...], ...]


def compiled_programs() -> list[Compiled]:
    """Return every program of the data file."""
    data = json.loads(PROGRAMS.read_text(encoding="utf-8"))["programs"]
    return [Compiled(name, eager / 1e3, ms / 1e3, tuple(graphs)) for name, eager, ms, graphs in data]


def compiled_s(program: Compiled) -> float:
    """Return the modelled seconds: the host calls and launches, and the device runs the kernels."""
    spec = gpu_spec(MODEL)
    host = device = spec.launch_s
    for graph in program.graphs:
        host += compiled.call_s(spec, backward=False)
        for kernel in graph:
            launch, seconds = _kernel(kernel)
            host += launch
            device = max(host, device) + seconds
    return max(host, device) + spec.launch_s


def _kernel(row: list[Any]) -> tuple[float, float]:
    """Return the host's and the device's seconds of a kernel of the data file."""
    spec = gpu_spec(MODEL)
    moved, elements, operations, dtype, repeated, length, window, call = row
    if call is None:
        sizes = compiled.FusedKernel(moved, elements, operations, dtype, repeated, length, window)
        return compiled.launch_s(spec), compiled.fused(spec, sizes)[0]
    name, inputs, outputs, flops, channels_last = call
    operator = Operator(name, _tensors(inputs), _tensors(outputs), flops)
    layout: Layout = "channels_last" if channels_last else ""
    cost = price(spec, operator.name, operator.inputs, operator.outputs, operator.flops, layout=layout)
    return spec.launch_s * launches(name), cost.seconds


def _tensors(rows: list[Any]) -> tuple[Any, ...]:
    return tuple((tuple(shape), dtype) for shape, dtype in rows)


def eager_ratios() -> dict[str, float]:
    """Return the modelled seconds of the eager programs by the names of the data file."""
    gpu = calibrated(gpu_spec(MODEL))
    levels = {"large": "level1", "level 2": "level2"}
    return {
        f"{levels[program.size]}/{program.program}": modelled_s(program, gpu)
        for program in (*measured(), *unseen())
        if program.model == MODEL and program.size in levels
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", action="store_true", help="also each program that is 25 %% off or more")
    listed = parser.parse_args().programs
    eager = eager_ratios()
    programs = compiled_programs()
    for level in ("level1", "level2"):
        chosen = [program for program in programs if program.name.startswith(level)]
        values = [compiled_s(program) / program.seconds for program in chosen]
        print(
            f"{level} on {MODEL} {len(values):4}   within ±25 %: {within_quarter(values):3}   within 2×:"
            f" {within(values, 2):3}   median ratio {median(values):.2f}"
        )
        for value, program in zip(values, chosen, strict=True):
            if listed and not 0.75 <= value <= 1.25:
                print(f"    {program.seconds * 1e3:9.3f} ms  {value:5.2f}  {program.name}")
    changed = [program for program in programs if abs(program.eager_s / program.seconds - 1) >= GAIN]
    known = [program for program in changed if program.name in eager]
    right = [
        program
        for program in known
        if (eager[program.name] > compiled_s(program)) == (program.eager_s > program.seconds)
    ]
    print(f"direction right where compiling changes the time by {GAIN:.0%} or more: {len(right)} of {len(known)}")


if __name__ == "__main__":
    main()
