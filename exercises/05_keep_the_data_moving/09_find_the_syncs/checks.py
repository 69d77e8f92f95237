"""The waits of each stage, no others, and an unchanged debug mode."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import Check, Finding, Run, syncs, value
from gpututor.checks.trees import tensors_by_path
from gpututor.trace.events import Kind

NAMES = ("off", "warn", "error")
MARK = "debug mode after an error: "
"""Prefix of the ranges with which given.py marks the mode that a call left whose stage had failed."""


def expected(drawn: dict[str, Any], machine: Any) -> dict[str, int]:
    """Count the waits from the rows that reach each stage."""
    x: torch.Tensor = drawn["batch"]
    waits = {}
    for name in drawn["plan"]:
        rows, columns = x.shape
        waits[name] = {"clean": 1, "check": rows, "each": rows + columns, "log": 3}.get(name, 0)
        if name == "clean":
            x = x[x[:, 0] > 0]
        elif name == "shift":
            x = x - x.mean(0)
    return waits


def all_waits(drawn: dict[str, Any], machine: Any) -> int:
    return sum(expected(drawn, machine).values())


def mode_left(run: Run) -> Finding | None:
    """Compare the mode after a call with the mode before it, as the next case's first stage has noted them."""
    for call, following in zip(run.calls, run.calls[1:], strict=False):
        noted = next(
            tensor.values.tolist()
            for path, tensor in tensors_by_path(following.state).items()
            if path.endswith("modes")
        )
        before, after = noted
        if before != after:
            return Finding(
                expected=f"the debug mode {before} ({NAMES[before]}), as before the call",
                got=f"{after} ({NAMES[after]}){run.which(call)}",
                line=run.line_of(call),
            )
    return None


def mode_after_error(run: Run) -> Finding | None:
    """Find a call whose last stage saw that an error left another debug mode than off, which it had set."""
    for call in run.calls:
        for event in call.trace:
            if event.kind is Kind.RANGE and event.name.startswith(MARK):
                after = int(event.name.removeprefix(MARK))
                if after:
                    expected = f"the debug mode 0 ({NAMES[0]}) after a stage has raised an error, as before the call"
                    got = f"{after} ({NAMES[after]}){run.which(call)}"
                    return Finding(expected, got, run.line_of(call))
    return None


checks = [
    value(
        expected,
        why="A count that is too low hides waits; a count that is too high sends you after waits that do not exist.",
        advice="Give each stage the result of the stage before it. Count only the warnings that contain "
        "`called a synchronizing`. Turn off Python's filter that shows a warning once for each line.",
    ),
    syncs(
        at_most=all_waits,
        why="You measure the stages' own waits. If there are more, your function changes what it measures.",
        advice="Run each stage once, and read no value of a batch.",
    ),
    Check(
        "mode",
        lambda machine: "The debug mode is what it was before the call",
        mode_left,
        (),
        "The mode applies to the whole process. If you leave it on, it warns of waits, or forbids them, in code that "
        "has nothing to do with yours.",
        "Read the mode with get_sync_debug_mode() before you change it, and set it again in a finally block.",
        wants=("arguments",),
    ),
    Check(
        "mode_after_error",
        lambda machine: "The debug mode is restored even if a stage raises an error",
        mode_after_error,
        (),
        "A caller may catch the stage's error and go on. If the mode stays on, all later code warns.",
        "Restore it in `finally`: that block runs with or without an error.",
    ),
]
