"""Times by the trace, size by size, and the first size at which one list is below the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gpututor.checks import UNKNOWN, Call, Check, Finding, Machine, Run, Taken, measurement, taken, transfers
from gpututor.trace.events import Event

RANGE = (0.85, 1.3)
"""The learner's figure over the trace's, on the virtual GPU."""
CLOCK_S = 1e-6
"""Seconds that reading the clock may add to the CPU's time."""


def reference(sizes: list[int]) -> dict[str, Any]:
    """Values of the right types and lengths; another check compares wins_at, which may be None."""
    return {"cpu": [0.0] * len(sizes), "gpu": [0.0] * len(sizes)}


def products(call: Call, size: int) -> list[Event]:
    """All products of two matrices of this size in float32, in their order, whose times are known."""
    flops = 2.0 * size**3
    all_products = [event for event in call.trace if event.name.endswith("mm") and event.end >= 0]
    return [event for event in all_products if event.flops == flops and event.dtype == "float32"]


def on_the_cpu(products: list[Event], call: Call) -> Taken:
    """Seconds of the last one on the CPU."""
    last = [event.duration / 1e9 for event in products if event.device == "cpu"][-1:]
    return Taken(last[0], last[0] + CLOCK_S) if last else UNKNOWN


def on_the_gpu(products: list[Event], call: Call) -> Taken:
    """Seconds of the last one on the device, from its launch until it was done."""
    return taken(call, [event for event in products if event.device != "cpu"][-1:])


def for_each_size(truth: Callable[[list[Event], Call], Taken]) -> Callable[[Call], list[Taken]]:
    """Return the truth for all sizes of a call."""

    def truths(call: Call) -> list[Taken]:
        return [
            truth(products(call, size), call)._replace(work=f"the product of size {size}")
            for size in call.drawn["sizes"]
        ]

    return truths


def find_cold(run: Run) -> Finding | None:
    """Find a product that is computed only once. The CPU's products are seen with a virtual GPU only."""
    for call in run.calls:
        for size in call.drawn["sizes"]:
            events = products(call, size)
            for place in ("GPU", "CPU") if run.machine.virtual else ("GPU",):
                there = [event for event in events if (event.device == "cpu") == (place == "CPU")]
                if len(there) < 2:
                    expected = f"two products of size {size} or more on the {place}: one to warm up, then the timed one"
                    return Finding(expected, f"{len(there)}{run.which(call)}", there[0].line if there else None)
    return None


def wrong_shape(run: Run) -> Finding | None:
    """A result that is not the expected dict."""
    for call in run.calls:
        result, wanted = call.output, reference(**call.drawn)
        if not isinstance(result, dict) or result.keys() != {"cpu", "gpu", "wins_at"}:
            return Finding(
                "a dict of 'cpu', 'gpu' and 'wins_at'", f"something else{run.which(call)}", run.line_of(call)
            )
        for part, times in wanted.items():
            got = result[part]
            if type(got) is not list or len(got) != len(times) or any(type(time) is not float for time in got):
                expected = f"result[{part!r}]: a list of {len(times)} floats"
                return Finding(expected, f"something else{run.which(call)}", run.line_of(call))
    return None


def wrong_size(run: Run) -> Finding | None:
    """A size that does not follow from the reported times."""
    for call in run.calls:
        result = call.output
        faster = [
            size for size, cpu, gpu in zip(call.drawn["sizes"], result["cpu"], result["gpu"], strict=True) if gpu < cpu
        ]
        wanted = faster[0] if faster else None
        if type(result["wins_at"]) is not type(wanted) or result["wins_at"] != wanted:
            got = f"result['wins_at'] is {result['wins_at']!r}{run.which(call)}"
            return Finding(f"{wanted}, by the reported times", got, run.line_of(call))
    return None


def is_virtual(machine: Machine) -> bool:
    return machine.virtual and machine.device != "cpu"


gpu_times = measurement(
    for_each_size(on_the_gpu),
    part="gpu",
    name="gpu_times",
    virtual=RANGE,
    why="Without a wait every size seems to take as long as a launch; with copies in it, you time the bus.",
    advice="Make the matrices on the device, warm up, synchronize, read the clock, compute, synchronize, read.",
)
cpu_times = measurement(
    for_each_size(on_the_cpu),
    part="cpu",
    name="cpu_times",
    virtual=RANGE,
    why="The CPU's time is the other half of the comparison: the same product, in the same type.",
    advice="Read the clock just before and just after the product on the CPU, with no wait for the GPU in between.",
    on=is_virtual,
)

checks = [
    Check(
        "structure",
        lambda machine: "It returns two lists of times, and a size",
        wrong_shape,
        why="Each size has a time on the CPU and one on the GPU: only then can they be compared.",
        advice="Append one float for each size to each of the lists, and return the three names of the task.",
        kind="structure",
    ),
    transfers(
        to_device=lambda drawn, machine: (0, 2 * len(drawn["sizes"])),
        to_host=0,
        why="A copy is not part of the product; if it is timed as well, it hides how fast the product is.",
        advice="Make the matrices on the device, and wait without copying a result to the host.",
    ),
    replace(gpu_times, sentence=lambda machine: "Its GPU times match the times of the products"),
    replace(cpu_times, sentence=lambda machine: "Its CPU times match the times of the products"),
    Check(
        "warm_up",
        lambda machine: "It computes each product before the clock starts, too",
        find_cold,
        why="The first use of an operator loads its kernels and libraries: on a real GPU that takes milliseconds.",
        advice="For each size, compute the product once before the clock starts, on the CPU and on the GPU.",
        on="gpu",
    ),
    Check(
        "wins_at",
        lambda machine: "It finds the first size at which the GPU is faster",
        wrong_size,
        needs=("structure",),
        why="To decide where to compute, you need the size from which the GPU is faster.",
        advice="The first size, in ascending order, whose GPU time is below its CPU time; None if there is none.",
    ),
]
