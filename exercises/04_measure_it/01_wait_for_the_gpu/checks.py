"""Two figures of the same products: how long the launches took, and how long the work took."""

from __future__ import annotations

from dataclasses import replace

import torch

from gpututor.checks import UNKNOWN, Call, Taken, launches, measurement, structure, syncs, taken
from gpututor.trace.events import Event, Kind


def reference(a: torch.Tensor, b: torch.Tensor, times: int) -> dict[str, float]:
    """Values of the right types; other checks compare the figures with the trace."""
    return {"launch_seconds": 0.0, "seconds": 0.0}


def timed(call: Call) -> list[Event]:
    """The last `times` products on the device; nothing when there are fewer."""
    products = [event for event in call.trace if event.name == "aten::mm" and event.device != "cpu"]
    times = call.drawn["times"]
    return products[-times:] if len(products) >= times else []


def working(call: Call) -> Taken:
    """Seconds for a product, from the first launch until all are done."""
    return taken(call, timed(call), call.drawn["times"])


def launching(call: Call) -> Taken:
    """Seconds for a launch: at least from the first to the last, at most from the wait before them to the wait after.

    That time includes allocating memory for products that the learner keeps.
    """
    products = timed(call)
    if not products:
        return UNKNOWN
    first, last = products[0].launched, products[-1].launched
    waits = [event for event in call.trace if event.kind is Kind.SYNCHRONISE]
    began = max([call.span.started, *(wait.end for wait in waits if wait.end <= first)])
    ended = min((wait.start for wait in waits if wait.start >= last), default=last)
    times = call.drawn["times"]
    return Taken((last - first) / 1e9 / times, (ended - began) / 1e9 / times)


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
    virtual=(0.9, 1.2),
    real=(0.3, 3.0),
    why="The host pays the time to launch, whether the work is large or small.",
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
        why="A launch returns at once. To measure the work, the host has to wait for the device.",
        advice="torch.cuda.synchronize() before the clock starts, and again before it stops. None within the loop.",
    ),
    replace(launch, sentence=lambda machine: "launch_seconds is the time of the loop of launches"),
]
