"""The three operators with the most GPU time, by the trace."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from typing import Any

from gpututor.checks import Check, Finding, Machine, Run, after_call, launches, structure, unmodified
from gpututor.trace.events import Kind
from gpututor.trace.formatting import duration

CLOSE = 0.99
"""Least ratio of the times of two operators that may be named in either order."""
ONCE_A_STEP = {
    "dense": "aten::native_layer_norm_backward",
    "images": "aten::max_pool2d_with_indices_backward",
    "positions": "aten::_softmax_backward_data",
}
"""An operator of one kernel that each kind of network has once in a backward pass."""
STEPS = 4


def steps_of(kind: str) -> Callable[[dict[str, Any], Machine], tuple[int, None]]:
    """Return the least number of steps, of networks of that kind only."""
    return lambda drawn, machine: (STEPS if drawn["kind"] == kind else 0, None)


def reference(**drawn: Any) -> list[str]:
    """Three names."""
    return ["", "", ""]


def find_other(run: Run) -> Finding | None:
    """The first place whose operator differs from the trace's."""
    for call in run.calls:
        times: Counter[str] = Counter()
        for event in call.trace:
            if event.kind is Kind.KERNEL and event.device != "cpu":
                times[event.name] += event.duration
        ranked = times.most_common(3)
        names = call.output
        if len(ranked) < 3:
            return Finding("training on the device", f"{len(ranked)} operators ran there{run.which(call)}")
        for place, (name, time) in enumerate(ranked):
            if names[place] != name and (times[names[place]] < CLOSE * time or names[place] in names[:place]):
                expected = ", ".join(f"{operator} ({duration(took)})" for operator, took in ranked)
                return Finding(expected, f"{', '.join(names)}{run.which(call)}", run.line_of(call))
    return None


def find_cold(run: Run) -> Finding | None:
    """Find a function that opens the profiler as the first thing it does. A schedule may warm up inside of it."""
    for node in ast.walk(ast.parse(run.source)):
        if not isinstance(node, ast.FunctionDef) or "schedule" in run.source:
            continue
        for place, statement in enumerate(node.body):
            opened = (
                [ast.unparse(item.context_expr) for item in statement.items] if isinstance(statement, ast.With) else []
            )
            if any("profile(" in text for text in opened) and node.name == run.entry:
                before = [inner for earlier in node.body[:place] for inner in ast.walk(earlier)]
                if not any(isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Call) for inner in before):
                    return Finding("a step before the profiler starts, to warm up", "none", statement.lineno)
    return None


def sentence(machine: Machine) -> str:
    return "These are the three operators that cost most"


checks = [
    structure(reference, advice="Return a list of three names, such as 'aten::mm': each row of the profiler has one."),
    launches(
        by_name={name: steps_of(kind) for kind, name in ONCE_A_STEP.items()},
        why="More than half of a training step is its backward pass.",
        advice="Train one step to warm up and three in the profiler, each with its backward pass.",
    ),
    Check(
        "top_three",
        sentence,
        find_other,
        needs=("structure",),
        why="Work on the costliest operator: an operator with 5 % of the time cannot save more than 5 %.",
        advice=(
            "Sort the rows of prof.key_averages() by self_device_time_total, the largest first, and take only names"
            " that begin with aten:: ."
        ),
        kind="values",
    ),
    Check(
        "warm_up",
        lambda machine: "A step warms up before the profiler starts",
        find_cold,
        (),
        "The first step loads libraries and chooses algorithms: it is not typical, so it does not belong in a profile.",
        "Train one step before the with block.",
    ),
    after_call(
        lambda **drawn: {"model.*.grad": None},
        why="If a step keeps its gradients, the next step adds to them, which takes other operators.",
        advice="End each step with model.zero_grad(), the last one too.",
    ).with_kind("other"),
    unmodified(may_change=("model.*running*", "model.*num_batches_tracked")),
]
