"""The right number on each GPU, in few tries, with nothing left behind."""

from __future__ import annotations

import ast
from math import log2
from typing import Any

from gpututor.checks import Check, Finding, Run, launches, memory, value

MIB = 1 << 20


def expected(drawn: dict[str, Any], machine: Any) -> int:
    """The largest batch whose four activations fit next to the weights, by the allocator's rules.

    A tensor of 10 MiB or more has a segment of its own, rounded up to 2 MiB. Two smaller ones share one of 20 MiB, and
    that fits on each of the machines. The counter lies in a segment of 2 MiB.
    """
    room = machine.memory_bytes - (drawn["weights_mib"] + 2) * MIB
    fitting = 0
    for n in range(1, drawn["most"] + 1):
        each = n * drawn["sample_kib"] * 256
        if each >= 10 * MIB and 4 * -(-each // (2 * MIB)) * 2 * MIB > room:
            break
        fitting = n
    return fitting


def most_tries(drawn: dict[str, Any], machine: Any) -> tuple[int, int]:
    return 0, int(2 * log2(drawn["most"]) + 3)


def swallowing(run: Run) -> Finding | None:
    """An `except` that takes any error for a batch that is too large. One that raises again is right."""
    for handler in ast.walk(ast.parse(run.source)):
        if not isinstance(handler, ast.ExceptHandler) or any(isinstance(node, ast.Raise) for node in ast.walk(handler)):
            continue
        caught = ast.unparse(handler.type) if handler.type else ""
        if not caught or caught in ("BaseException", "Exception", "RuntimeError"):
            got = f"except {caught}".rstrip() + ", which catches other errors too"
            return Finding("a handler for running out of memory only", got, handler.lineno)
    return None


checks = [
    memory(
        left=0,
        why="Memory that the search leaves behind is missing in the training that follows.",
        advice="A stored error keeps the frames that it passed through, and their tensors.",
    ),
    value(
        expected,
        why="If the batch is too small, the GPU is partly idle; if it is too large, the training stops.",
        advice="Empty the cache before each try, and begin no try inside the except block: while that runs, the error "
        "refers to the frame of the failed step, whose tensors still take memory.",
    ),
    launches(
        most_tries,
        name="tries",
        why="Each try is a training step. Here each of them launches one kernel.",
        advice="Halve the range that is left at each try, or double the size until it fails and halve then.",
    ),
    Check(
        "other_errors",
        lambda machine: "Errors of another kind get through",
        swallowing,
        (),
        "A mistake in the model fails with every batch: a search that catches it says that nothing fits.",
        "except torch.cuda.OutOfMemoryError catches running out of memory, and no more.",
    ),
]
