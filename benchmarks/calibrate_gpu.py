"""Measurements of this machine's GPU, compared with the virtual GPU of its name.

    python benchmarks/calibrate_gpu.py [--write FILE] [--name NAME] [--rounds N]

Measures pageable and pinned copies in both directions, launches, matrix products by size and type, and elementwise
kernels by size. Prints measured times, modelled times and their ratios. `--write` writes an entry in the form of
gpus.toml to a file. Needs a CUDA GPU that nothing else uses; without a GPU, the exit code is 2.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median

import torch
from gpu_figures import bandwidths, entry, facts_of, launch_us, link, matching, matrix_rates, toml_of
from micro import MIB, Case, CudaTimer, Timer, calibration_cases, measure, modelled

from gpututor.hardware.gpus import GpuSpec


def report(measured: Mapping[Case, float], model: Mapping[Case, float]) -> list[str]:
    """Return a line for each case, and a summary; `model` is empty if no spec is known."""
    lines = [f"{'':52} {'measured':>12} {'modelled':>12}   modelled / measured"]
    ratios: dict[str, list[float]] = {}
    for case, seconds in measured.items():
        text = f"{case.words:52} {seconds * 1e6:9.1f} µs"
        if case in model:
            ratios.setdefault(case.what, []).append(model[case] / seconds)
            text += f" {model[case] * 1e6:9.1f} µs   {model[case] / seconds:5.2f}"
        lines.append(text)
    for what, values in ratios.items():
        error = math.expm1(median(abs(math.log(ratio)) for ratio in values))
        lines.append(
            f"{what}: {len(values)} modelled, ratio {median(values):.2f} in the median, {min(values):.2f} to"
            f" {max(values):.2f}, median error {error:.0%}"
        )
    missing = [case.words for case in measured if case not in model]
    if model and missing:
        lines.append(f"not modelled: {', '.join(missing)}")
    return lines


def figures(measured: Mapping[Case, float], known: GpuSpec | None) -> list[str]:
    """Return the figures of the spec: measured, and those of gpus.toml."""
    link_figures = link(measured)
    known_figures = ("", "", "", "")
    if known is not None:
        rates = (known.pinned_bytes_per_s / 1e9, known.pageable_bytes_per_s / 1e9, known.copy_latency_s * 1e6)
        known_figures = tuple(f"   gpus.toml: {figure:g}" for figure in (*rates, known.launch_s * 1e6))  # type: ignore[assignment]
    lines = [
        f"pinned copies     {link_figures['pinned_gb_s']:8.1f} GB/s{known_figures[0]}",
        f"pageable copies   {link_figures['pageable_gb_s']:8.1f} GB/s{known_figures[1]}",
        f"before first byte {link_figures['latency_us']:8.1f} µs{known_figures[2]}",
        f"launch            {launch_us(measured):8.1f} µs{known_figures[3]}",
    ]
    for dtype, by_size in matrix_rates(measured).items():
        rates_by_size = ", ".join(f"{size}: {rate / 1e12:.1f}" for size, rate in by_size.items())
        lines.append(f"TFLOP/s {dtype:9} {rates_by_size}")
    by_bytes = ", ".join(f"{size / MIB:g} MiB: {rate / 1e9:.0f}" for size, rate in bandwidths(measured).items())
    lines.append(f"GB/s of additions {by_bytes}   (what fits the L2 cache is faster)")
    return lines


def calibrate(timer: Timer, properties: object, write: Path | None, name: str | None) -> list[str]:
    """Measure, and return the lines to print; `properties` are the device's as torch has them."""
    reported, memory = properties.name, properties.total_memory  # type: ignore[attr-defined]
    known = matching(reported, memory)
    cases = calibration_cases()
    measured = measure(timer, cases)
    model = modelled(known.name, cases) if known is not None else {}
    title = f"{reported}, measured" + (f"; modelled as {known.name}" if known else "; no spec of gpus.toml is this GPU")
    lines = [title, "", *figures(measured, known), "", *report(measured, model)]
    if write is not None:
        new_entry = entry(facts_of(properties, known), measured, known)
        write.write_text(toml_of(name or (known.name if known else reported), new_entry), encoding="utf-8")
        lines.append(f"wrote {write}")
    return lines


def main() -> None:
    """Print the figures; exit with 2 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--name", help="the entry's name")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("This machine has no CUDA GPU: there is nothing to measure.", file=sys.stderr)
        sys.exit(2)
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    print("\n".join(calibrate(CudaTimer(options.rounds), properties, options.write, options.name)))


if __name__ == "__main__":
    main()
