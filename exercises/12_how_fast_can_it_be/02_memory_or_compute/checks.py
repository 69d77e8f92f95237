"""The time of a call, by the trace, and the shares and the limit that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isclose
from typing import Any

from gpututor.checks import Call, Check, Finding, Machine, Run, Taken, launches, measurement, structure, taken
from gpututor.hardware.gpus import gpu_spec
from gpututor.trace.events import Event, Kind

CALLS = 10
ENOUGH = 0.25
LEAST, MOST = 0.9, 1.05
"""Times the trace's. A warm-up that is timed with ten calls makes them 1.1 times as long."""


def reference(size: int, is_product: bool, faster: float) -> dict[str, Any]:
    """Values of the right types; other checks compare the figures."""
    return {"seconds": 0.0, "flops_share": 0.0, "bandwidth_share": 0.0, "limit": ""}


def kernels(call: Call) -> list[Event]:
    """Return the kernels of the last ten calls."""
    names = ("aten::mm", "aten::add")
    return [event for event in call.trace if event.kind is Kind.KERNEL and event.name.startswith(names)][-CALLS:]


def one_call(call: Call) -> Taken:
    """Return a tenth of the seconds of the last ten kernels."""
    return taken(call, kernels(call), CALLS)._replace(work="a call")


def shares(run: Run, call: Call) -> tuple[float, float]:
    """Return the shares of arithmetic and bandwidth that follow from the reported time."""
    spec, size = gpu_spec(run.machine.gpu_name), call.drawn["size"]
    elements = size * size if call.drawn["is_product"] else size
    flops = 2 * size**3 if call.drawn["is_product"] else size
    seconds = call.output["seconds"] * call.drawn["faster"]
    return flops / seconds / spec.float32_flops, 12 * elements / seconds / spec.bytes_per_s


def wrong_shares(run: Run) -> Finding | None:
    """Find a share that does not follow from the reported time."""
    for call in run.calls:
        for part, wanted in zip(("flops_share", "bandwidth_share"), shares(run, call), strict=True):
            if not isclose(call.output[part], wanted, rel_tol=1e-5):
                got = f"result[{part!r}] is {call.output[part]:.3g}{run.which(call)}"
                return Finding(f"{wanted:.3g}, by the seconds that it reports", got, run.line_of(call))
    return None


def wrong_limit(run: Run) -> Finding | None:
    """Find a limit that does not follow from the shares."""
    for call in run.calls:
        compute, memory = shares(run, call)
        wanted = "launch" if max(compute, memory) < ENOUGH else "compute" if compute > memory else "memory"
        if call.output["limit"] != wanted:
            got = f"result['limit'] is {call.output['limit']!r}{run.which(call)}"
            return Finding(f"{wanted!r}: the shares are {compute:.2g} and {memory:.2g}", got, run.line_of(call))
    return None


def wait_between(run: Run) -> Finding | None:
    """Find a wait between the last ten calls."""
    for call in run.calls:
        launched = [event.launched for event in kernels(call)]
        for event in call.trace:
            if event.kind is Kind.SYNCHRONISE and launched[0] < event.launched < launched[-1]:
                return Finding("no wait between the ten calls", f"a wait{run.which(call)}", event.line)
    return None


def least_calls(name: str) -> Callable[[dict[str, Any], Machine], tuple[int, None]]:
    """Return the bounds of kernels of this name: ten to be timed and one before, if the work launches it."""
    return lambda drawn, machine: (CALLS + 1 if drawn["is_product"] is (name == "aten::mm") else 0, None)


def sentence(text: str) -> Callable[[Machine], str]:
    return lambda machine: text


checks = [
    structure(reference, advice="A dict of three floats and a string, under the names of the task."),
    replace(
        measurement(
            one_call,
            "seconds",
            virtual=(LEAST, MOST),
            name="seconds",
            why="The shares depend on the time, and a launch returns long before its kernel is done.",
            advice="Warm up, synchronize, read the clock, call work ten times, synchronize, read it, divide by ten.",
        ),
        sentence=sentence("Its time is the time of one call"),
    ),
    replace(
        launches(
            by_name={name: least_calls(name) for name in ("aten::mm", "aten::add")},
            name="warm_up",
            why="The first call loads kernels and allocates memory: on a real GPU that takes milliseconds.",
            advice="Call work once before the clock starts, and do not count that call.",
        ),
        sentence=sentence("It calls work once to warm up"),
    ),
    Check(
        "in_a_row",
        sentence("The ten calls follow each other without a wait"),
        wait_between,
        needs=("structure", "seconds"),
        why="A wait after each call leaves the GPU idle during every launch: a short kernel seems far slower.",
        advice="Wait once before the first of the ten calls, and once after the last.",
        on="gpu",
    ),
    Check(
        "shares",
        sentence("Its shares follow from its time"),
        wrong_shares,
        needs=("structure", "seconds"),
        why="A share shows how much of the GPU the kernel uses. A time alone does not.",
        advice="flops / seconds / peak_flops, and moved / seconds / bandwidth.",
    ),
    Check(
        "limit",
        sentence("It names what limits the kernel"),
        wrong_limit,
        needs=("structure", "seconds"),
        why="The limit decides what to optimize. Work on anything else gains nothing.",
        advice="The larger share decides, if it is at least 0.25; below that, the GPU waits for launches.",
    ),
]
