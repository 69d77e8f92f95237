"""Two figures of the same products: how long the launches took, and how long the work took."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from gpututor.checks import Call, launches, measurement, structure, syncs


def reference(a: torch.Tensor, b: torch.Tensor, times: int) -> dict[str, float]:
    """Of the right types; the figures are held against the trace."""
    return {"launch_seconds": 0.0, "seconds": 0.0}


def timed(call: Call) -> tuple[list[tuple[float, float]], float]:
    """When each of the last `times` products was launched and done, and when the one before was done, in seconds."""
    products = [event for event in call.trace if event.name == "aten::mm" and event.device != "cpu"]
    known = [(event.launched / 1e9, event.end / 1e9) for event in products if event.launched >= 0 and event.end >= 0]
    times = call.drawn["times"]
    return known[-times:], max((end for _, end in known[:-times]), default=0.0)


def working(call: Call) -> float:
    """Seconds for a product, from the first launch until all are done. What was to be done before does not count."""
    times, (found, free) = call.drawn["times"], timed(call)
    return (found[-1][1] - max(free, found[0][0])) / times if len(found) == times else math.nan


def launching(call: Call) -> float:
    """Seconds from one launch to the next."""
    times, (found, _) = call.drawn["times"], timed(call)
    return (found[-1][0] - found[0][0]) / (times - 1) if len(found) == times else math.nan


warm_up = launches(
    by_name={"aten::mm": lambda drawn, machine: (drawn["times"] + 1, drawn["times"] + 20)},
    name="warm_up",
    why="The first use of an operator loads its kernels and libraries: on a real GPU that takes milliseconds.",
    advice="Compute the product once before the clock starts, and do not count it.",
)
launch = measurement(
    launching,
    part="launch_seconds",
    name="launch",
    virtual=(0.75, 1.4),
    real=(0.3, 3.0),
    why="The time to launch is what the host pays, whether the work is large or small.",
    advice="Read the clock when the loop has ended, before you wait for the device; divide by times.",
)

checks = [
    structure(reference),
    replace(warm_up, sentence=lambda machine: "It computes the product before the clock starts, too"),
    syncs(
        at_most=2,
        why="A wait after each product adds the time of a launch and of a wait to it, and the device idles meanwhile.",
        advice="Wait once before the clock starts and once before it stops; let the products follow each other.",
    ),
    measurement(
        working,
        part="seconds",
        virtual=(0.94, 1.12),
        why="A launch returns at once: without waiting, a clock knows nothing of the device's work.",
        advice="torch.cuda.synchronize() before the clock starts, and again before it stops. None within the loop.",
    ),
    replace(launch, sentence=lambda machine: "The time to launch is that of the loop, and not that of the work"),
]
