"""All figures of the roofline, from the shapes."""

from __future__ import annotations

from typing import Any

from gpututor.checks import value


def expected(drawn: dict[str, Any], machine: Any) -> dict[str, Any]:
    """The figures by their definitions."""
    rows, inner, columns = drawn["rows"], drawn["inner"], drawn["columns"]
    flops = 2 * rows * inner * columns
    moved = (rows * inner + inner * columns + rows * columns) * drawn["dtype"].itemsize
    computed, copied = flops / drawn["peak_flops"], moved / drawn["bandwidth"]
    return {
        "flops": flops,
        "bytes": moved,
        "intensity": flops / moved,
        "ridge": drawn["peak_flops"] / drawn["bandwidth"],
        "bound": "compute" if computed >= copied else "memory",
        "least_seconds": max(computed, copied),
    }


checks = [
    value(
        expected,
        why="Below the ridge a kernel waits for memory, above it for arithmetic; its time is the longer of the two.",
        advice="Two FLOPs for each multiply-add; three matrices, each moved once, of dtype.itemsize bytes an element.",
    ),
]
