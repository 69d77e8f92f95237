"""Figures of one trace for the tabs: memory, shares of time, hazards and advice.

This module imports NumPy: it is loaded with the first trace.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpututor.hardware.gpus import gpu_specs
from gpututor.trace.advice import collect_advice
from gpututor.trace.advice_rules import Advice, Rates
from gpututor.trace.arrays import TimeShares, TraceArrays, time_shares
from gpututor.trace.hazards import HazardGroup, hazards_of
from gpututor.trace.memory import MemoryTimeline, memory_curves

MOST_ADVICE = 5
_MODEL = re.compile(r"virtual (.+)$")


@dataclass(frozen=True)
class ProcessFigures:
    """Of one process's trace."""

    name: str
    """Such as `rank 1`; empty where there is only one."""
    curves: tuple[MemoryTimeline, ...]
    shares: tuple[TimeShares, ...]
    hazards: tuple[HazardGroup, ...]
    advice: tuple[Advice, ...]
    """Hazards and missing memory are not among it: they are told by themselves."""
    timed: bool


def figures_of(name: str, rows: TraceArrays, elapsed_ns: int, device: str) -> ProcessFigures:
    """Everything from one trace; `device` is what the run's device is called, for its rates."""
    hazards = hazards_of(rows)
    rates = dict.fromkeys(rows.accelerators(), _rates(device))
    advice = collect_advice(rows, (), {key: value for key, value in rates.items() if value is not None}, None)
    curves = memory_curves(rows)
    for curve in curves:
        curve.held(curve.peak.number)  # what lives how long is found out with the first question
    return ProcessFigures(
        name,
        curves,
        time_shares(rows, elapsed_ns),
        hazards,
        tuple(one for one in advice if one.rule != "out of memory")[:MOST_ADVICE],
        bool(rows.timed.any()),
    )


def _rates(device: str) -> Rates | None:
    """Return the rates of a virtual GPU by its description, such as `cuda:0, virtual T4`; None for a real device."""
    match = _MODEL.search(device)
    spec = gpu_specs().get(match[1]) if match else None
    return Rates(spec.float32_flops, spec.tf32_flops) if spec else None
