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


TOO_WIDE = ("BaseException", "Exception", "RuntimeError", "ValueError")


def swallowing(run: Run) -> Finding | None:
    """Find an `except` or a `suppress` of any error. An `except` that raises again is right."""
    for node in ast.walk(ast.parse(run.source)):
        match node:
            case ast.ExceptHandler(type=caught) if not any(isinstance(part, ast.Raise) for part in ast.walk(node)):
                classes = caught.elts if isinstance(caught, ast.Tuple) else [caught] if caught else []
                is_wide = not classes
            case ast.Call(func=ast.Name("suppress") | ast.Attribute(attr="suppress"), args=classes):
                is_wide = False
            case _:
                continue
        names = [ast.unparse(each) for each in classes]
        if is_wide or any(name in TOO_WIDE for name in names):
            word = "suppress" if isinstance(node, ast.Call) else "except"
            got = f"{word} {', '.join(names)}".rstrip() + ", which catches other errors too"
            return Finding("a handler for running out of memory only", got, node.lineno)
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
        advice="Halve the remaining range at each try; or double the size until it fails, then halve the range.",
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
