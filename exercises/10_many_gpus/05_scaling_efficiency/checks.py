"""The three times match the trace of each rank, and the efficiencies follow from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from gpututor.checks import Call, Check, Finding, Run, called, processes, structure, unmodified
from gpututor.checks.python_syntax import uses_of
from gpututor.trace.events import WORK, Event, Kind
from gpututor.trace.formatting import duration

RANKS = 2
LOW, HIGH = 0.9, 1.2
SLACK_NS = 20_000
"""Nanoseconds for a launch and a wait around a step: on a fast GPU they take longer than its kernels."""
FEW_BYTES = 64
"""Bytes of times that the ranks compare by an all-reduce; those of gradients are more."""
WARM_UP = 3
"""Steps before those that are timed: DDP makes its buckets in the first and rebuilds them in the second."""
BY_EVENTS = called("elapsed_time")
HOW_TO_TIME = "Warm up, synchronize, read the clock, do some steps, synchronize, read it again; divide by the steps."
PARTS = {
    "the mean squared error": ("aten::mse_loss",),
    "an update of the parameters": ("aten::_foreach_add_", "aten::_fused_sgd_", "aten::add_", "aten::sub_"),
}
"""Parts of a step with the kernels that show them; the products show the passes."""
FIGURES = ("one", "strong", "weak", "strong_efficiency", "weak_efficiency")


def reference(weights: dict[str, torch.Tensor], inputs: torch.Tensor, targets: torch.Tensor) -> list[dict[str, float]]:
    return [dict.fromkeys(FIGURES, 0.0) for _ in range(RANKS)]


class Step(NamedTuple):
    """A training step of a rank, from its first product to the first of the next step."""

    rows: int
    start: int
    work: list[Event]

    @property
    def shared(self) -> bool:
        sums = (event for event in self.work if event.kind is Kind.COLLECTIVE and "allreduce" in event.name)
        return any(event.size_bytes > FEW_BYTES for event in sums)


def steps_of(rank: Call, drawn: dict[str, Any]) -> list[Step]:
    """The steps of a rank: each begins with the product of the first layer, whose FLOPs give the number of rows."""
    hidden, features = drawn["weights"]["0.weight"].shape
    every = drawn["inputs"].shape[1]
    steps: list[Step] = []
    for event in rank.trace:
        if event.kind not in WORK:
            continue
        if event.kind is Kind.KERNEL and event.name == "aten::addmm":
            rows = event.flops / (2 * hidden * features)
            for size in (every, every // RANKS):
                if math.isclose(rows, size, rel_tol=0.1):
                    steps.append(Step(size, event.start, []))
        if steps:
            steps[-1].work.append(event)
    return steps


def problem_of(
    rank: Call, drawn: dict[str, Any], reported: float, share: int, shared: bool, by_events: bool
) -> tuple[str, str, str] | None:
    """Expected, got and advice, if a figure is not the time of a step on `1 / share` of the rows."""
    steps = steps_of(rank, drawn)
    rows = drawn["inputs"].shape[1] // share
    chosen = [place for place, step in enumerate(steps) if step.rows == rows and step.shared == shared]
    how = "with an all-reduce of its gradients" if shared else "without an all-reduce"
    times = [steps[place + 1].start - steps[place].start for place in chosen if place + 1 in chosen]
    if not times:
        return f"two or more steps on {rows} rows, {how}", f"{len(chosen)}", ""
    for part, names in PARTS.items():
        if not all(any(event.name in names for event in steps[place].work) for place in chosen[:-1]):
            return f"{part} in each step on {rows} rows, {how}", "none in some", ""
    usual = sorted(times[len(times) // 2 :])
    if not LOW * usual[0] <= reported * 1e9 <= HIGH * (usual[-1] + SLACK_NS):
        took = " to ".join(dict.fromkeys(duration(time) for time in (usual[0], usual[-1])))
        expected = f"{LOW:g} to {HIGH:g} times the {took} of a step on {rows} rows, {how}, modelled"
        return expected, duration(reported * 1e9) if math.isfinite(reported) else "no number", ""
    return waits_missing(rank, steps, chosen, by_events)


def waits_missing(rank: Call, steps: list[Step], chosen: list[int], by_events: bool) -> tuple[str, str, str] | None:
    """Expected, got and advice, if the host cannot know that the GPU was idle when it read the clock.

    On a fast GPU, steps take as long as their launches, and the figure is right by chance. Events need one wait only.
    """
    first, last = steps[chosen[0]].work[0].launched, steps[chosen[-1]].work[0].launched
    own = len(steps[chosen[-2]].work)
    end = steps[chosen[-1]].work[:own][-1].launched
    following = steps[chosen[-1] + 1].work[0].launched if chosen[-1] + 1 < len(steps) else math.inf
    waits = [event.launched for event in rank.trace if event.kind is Kind.SYNCHRONISE]
    if not any(end <= wait < following for wait in waits):
        return "a wait for the GPU right after the last step", "none", HOW_TO_TIME
    if not by_events and not any(first < wait < last for wait in waits):
        return "a wait for the GPU between the warm-up and the steps that are timed", "none", HOW_TO_TIME
    begins = [steps[place].work[0].launched for place in chosen]
    before = max((sum(begin < wait for begin in begins) for wait in waits if first < wait < last), default=len(begins))
    if before < WARM_UP:
        return (
            f"{WARM_UP} steps or more to warm up, before the wait that starts the clock",
            f"{before}",
            HOW_TO_TIME,
        )
    return None


def time_is_true(name: str, share: int, shared: bool, advice: str) -> Callable[[Run], Finding | None]:
    """Compare the figure `name` of each rank with its trace."""

    def find(run: Run) -> Finding | None:
        by_events = any(BY_EVENTS.fits(use, surely=True) and use.alive for use in uses_of(run.source, run.entry))
        for call in run.calls:
            for number, (rank, figures) in enumerate(zip(call.ranks, call.output, strict=True)):
                problem = problem_of(rank, call.drawn, figures[name], share, shared, by_events)
                if problem is not None:
                    expected, got, how = problem
                    return run.finding(call, expected, f"{got} in rank {number}", advice=how or advice)
        return None

    return find


def efficiencies(run: Run) -> Finding | None:
    """Find an efficiency that does not follow from its rank's own times."""
    for call in run.calls:
        for number, figures in enumerate(call.output):
            alone, strong, weak = (figures[name] for name in ("one", "strong", "weak"))
            for name, wanted in (("strong_efficiency", alone / (RANKS * strong)), ("weak_efficiency", alone / weak)):
                if not math.isclose(figures[name], wanted, rel_tol=1e-6):
                    got = f"{figures[name]:.4g} as {name!r} in rank {number}"
                    return run.finding(call, f"{wanted:.4g}, of your times and {RANKS} GPUs", got)
    return None


def timed(name: str, figure: str, share: int, shared: bool, sentence: str, advice: str) -> Check:
    return Check(
        name,
        lambda _: sentence,
        time_is_true(figure, share, shared, advice),
        needs=("structure",),
        why="A time is right only between two moments at which the GPU is idle, after the first steps.",
        on="gpu",
        kind="values",
    )


checks = [
    structure(reference),
    processes({"allreduce": (1, None)}, why="A group that never ends keeps its GPU."),
    timed(
        "one_gpu",
        "one",
        1,
        False,
        "The time on one GPU is that of a step on all rows, alone",
        HOW_TO_TIME,
    ),
    timed(
        "strong",
        "strong",
        RANKS,
        True,
        "The time of strong scaling is that of a step on a share of the rows, with DDP",
        "The same batch, divided: each rank calls the wrapper on its part of the rows.",
    ),
    timed(
        "weak",
        "weak",
        1,
        True,
        "The time of weak scaling is that of a step on all rows in each rank, with DDP",
        "A batch for each GPU: each rank calls the wrapper on all of its rows.",
    ),
    Check(
        "efficiency",
        lambda _: "Both efficiencies follow from the times",
        efficiencies,
        needs=("structure", "one_gpu", "strong", "weak"),
        why="An efficiency says whether another GPU is worth its price: for a result sooner, or for more data.",
        advice="Divide the time that a perfect machine would need by the time that yours needed.",
        on="gpu",
    ),
    unmodified(may_change=("model",)),
]
