"""Times and peaks against the trace, the warm-up, and the conclusions from the figures."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gpututor.checks import (
    Call,
    Check,
    Finding,
    Machine,
    Run,
    Taken,
    after_call,
    enclosed,
    measurement,
    structure,
    unmodified,
)
from gpututor.checks.transfers import sync_causes
from gpututor.trace.events import Event, Kind

MODES = {"float32": "float32", "autocast": "float16"}
"""The parts of the result, and the type that their products run in."""
PRODUCTS = 5
"""Products of a step: two forward and three backward, since the batch needs no gradient."""


def reference(**drawn: Any) -> dict[str, Any]:
    """Return the structure of the result; its figures do not count."""
    part = {"seconds": 0.0, "peak_bytes": 0}
    return {"float32": part, "autocast": part, "speed_up": 1.0, "saved": 0.0}


def products(call: Call, dtype: str) -> list[Event]:
    """All products of the call in this type."""
    return [
        event
        for event in call.trace
        if event.kind is Kind.KERNEL and event.name.endswith("mm") and event.dtype == dtype
    ]


def last_step(dtype: str) -> Callable[[Call], Taken]:
    """Seconds of the last step in this type: its products, and all work between the waits around them."""
    return lambda call: enclosed(call, products(call, dtype), PRODUCTS)


def find_cold(run: Run) -> Finding | None:
    """Find a mode with only one step."""
    for call in run.calls:
        for dtype in MODES.values():
            steps = len(products(call, dtype)) // PRODUCTS
            if steps < 2:
                return Finding(
                    f"two steps or more with products in {dtype}", f"{steps}{run.which(call)}", run.line_of(call)
                )
    return None


def find_wait(run: Run) -> Finding | None:
    """Find a wait between the first and the last product of a step. Waits between steps are fine: timers need them."""
    for call in run.calls:
        for dtype in MODES.values():
            kernels = products(call, dtype)
            kernels = kernels[len(kernels) % PRODUCTS :]  # a warm-up may have begun with a forward pass alone
            for first, last in zip(kernels[::PRODUCTS], kernels[PRODUCTS - 1 :: PRODUCTS], strict=False):
                waits = [
                    event
                    for event in call.trace
                    if event.kind is Kind.SYNCHRONISE and first.launched <= event.launched <= last.launched
                ]
                if waits:
                    got = f"{sync_causes(waits, run.source)}{run.which(call)}"
                    return Finding(f"no wait between forward and backward ({dtype})", got, waits[0].line)
    return None


def find_peak(run: Run) -> Finding | None:
    """Find a peak that differs from the last step's peak by more than 1 %."""
    for call in run.calls:
        for part, dtype in MODES.items():
            inside = products(call, dtype)[-PRODUCTS:]
            peak = max(
                event.allocated
                for event in call.trace
                if event.kind is Kind.ALLOCATE and inside[0].launched <= event.launched <= inside[-1].launched
            )
            reported = call.output[part]["peak_bytes"]
            if not 0.99 * peak <= reported <= 1.01 * peak:
                got = f"result['{part}']['peak_bytes'] is {reported:,}{run.which(call)}"
                return Finding(f"{peak:,} bytes at the peak of that step", got, run.line_of(call))
    return None


def find_conclusion(run: Run) -> Finding | None:
    """Find a speed-up or a saving that does not follow from the reported figures."""
    for call in run.calls:
        wide, narrow = call.output["float32"], call.output["autocast"]
        if not (wide["seconds"] > 0 and narrow["seconds"] > 0 and wide["peak_bytes"] > 0):
            return Finding("seconds and bytes above zero", f"a zero among them{run.which(call)}", run.line_of(call))
        wanted = {
            "speed_up": wide["seconds"] / narrow["seconds"],
            "saved": 1 - narrow["peak_bytes"] / wide["peak_bytes"],
        }
        for name, figure in wanted.items():
            if not math.isclose(call.output[name], figure, rel_tol=1e-3):
                got = f"{call.output[name]:.4g}{run.which(call)}"
                return Finding(f"result['{name}'] is {figure:.4g}, from your figures", got, run.line_of(call))
    return None


def says(words: str) -> Callable[[Machine], str]:
    """The same sentence on each machine."""
    return lambda machine: words


TIME_WHY = "A launch returns at once: the clock has to be read when the GPU is idle, before and after the step."
TIME_ADVICE = "torch.cuda.synchronize(), read the clock, one whole step, torch.cuda.synchronize(), read it again."

checks = [
    structure(reference, advice="Seconds and shares are floats; peaks are whole bytes, as the meter gives them."),
    Check(
        "warm_up",
        says("Each way is warmed up with a whole step"),
        find_cold,
        why="The first step also loads libraries and takes memory. On a real GPU it takes many times as long.",
        advice="Do one whole step, forward and backward, in each precision before the one that you measure.",
        on="gpu",
    ),
    Check(
        "syncs",
        says("The host does not wait in the middle of a step"),
        find_wait,
        why="A wait inside a step is timed with it, and the GPU is idle meanwhile.",
        advice="Wait before and after the measured steps, and nowhere else; do not look at the loss.",
        on="gpu",
    ),
    measurement(last_step("float32"), "float32.seconds", name="float32_time", why=TIME_WHY, advice=TIME_ADVICE),
    measurement(last_step("float16"), "autocast.seconds", name="autocast_time", why=TIME_WHY, advice=TIME_ADVICE),
    Check(
        "peaks",
        says("The peaks come from the measured steps"),
        find_peak,
        needs=("structure", "warm_up"),
        why="The meter keeps the highest value ever seen, including that of an earlier step, until you reset it.",
        advice="torch.cuda.reset_peak_memory_stats() before each measured step, max_memory_allocated() after it.",
        on="gpu",
    ),
    Check(
        "conclusion",
        says("Speed-up and saving follow from the figures"),
        find_conclusion,
        needs=("structure",),
        why="Twice as fast and half the time mean the same: say which time you divide by which.",
        advice="speed_up = float32 / autocast in seconds; saved = 1 - autocast / float32 in bytes.",
    ),
    after_call(
        lambda **drawn: {"model.*.grad": None},
        why="Old gradients take memory in the next step, and backward() adds to them: that step is a different one.",
        advice="End each step with model.zero_grad(), the last one too.",
    ).with_kind("other"),
    unmodified(
        why="A measurement must leave the model as it was: weights that went through float16 have lost their digits.",
        advice="Autocast casts for the moment; model.half() changes the model itself.",
    ),
]
