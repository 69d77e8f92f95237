"""What the tabs beside the timeline show of a trace: memory, shares of time, hazards, advice. No Textual here.

Reading a long trace takes longer than a key may take to act, so this is made in the thread that loads the traces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpututor.grading.models import GPUS_FILE
from gpututor.trace.advice import Advice, Rates, find
from gpututor.trace.hazards import HazardGroup, hazards_of
from gpututor.trace.memory_curve import MemoryCurve, memory_curves
from gpututor.trace.rows import Rows
from gpututor.trace.shares import TimeShares, time_shares

MOST_ADVICE = 5
_MODEL = re.compile(r"virtual (.+)$")


@dataclass(frozen=True)
class ProcessFigures:
    """Of one process's trace."""

    name: str
    """Such as `rank 1`; empty where there is only one."""
    curves: tuple[MemoryCurve, ...]
    shares: tuple[TimeShares, ...]
    hazards: tuple[HazardGroup, ...]
    advice: tuple[Advice, ...]
    """Hazards and missing memory are not among it: they are told by themselves."""
    timed: bool


def figures_of(name: str, rows: Rows, elapsed_ns: int, device: str) -> ProcessFigures:
    """Everything from one trace; `device` is what the run's device is called, for its rates."""
    hazards = hazards_of(rows)
    rates = dict.fromkeys(rows.accelerators(), _rates(device))
    advice = find(rows, (), {key: value for key, value in rates.items() if value is not None}, None)
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
    """How fast a GPU multiplies, by what it is called: `cuda:0, virtual T4`; None for one that is not modelled."""
    import tomllib

    found = _MODEL.search(device)
    entry = tomllib.loads(GPUS_FILE.read_text(encoding="utf-8")).get(found[1]) if found else None
    return Rates(entry["flops_t"]["float32"] * 1e12, entry["flops_t"].get("tf32", 0) * 1e12) if entry else None
