"""The sums of columns, from a kernel whose warps use all of the sectors that they move."""

from __future__ import annotations

import torch

from gpututor.checks import (
    Check,
    Finding,
    Run,
    coalesced,
    in_bounds,
    launches,
    no_races,
    parity,
    placement,
    programs,
    structure,
    syncs,
    traffic,
)
from gpututor.trace.events import Kind

WIDEST = 128
"""Columns that a single program may take."""


NARROWEST = 32
"""Columns for each program, so that each lane of a warp has a column."""


def reference(x: torch.Tensor) -> torch.Tensor:
    """The sum over the rows."""
    return x.sum(dim=0)


def idle_lanes(run: Run) -> Finding | None:
    """Find a kernel with more programs than there are warps of columns."""
    for call in run.calls:
        most = -(-call.drawn["x"].shape[1] // NARROWEST)
        for event in call.trace:
            if event.kind is Kind.KERNEL and event.programs > most:
                expected = f"at most {most} programs, with {NARROWEST} columns or more each"
                return run.finding(call, expected, f"{event.programs} programs", event.line)
    return None


checks = [
    structure(reference, advice="x.new_empty(columns) has the right shape, dtype and device."),
    in_bounds(advice="The last block of columns has lanes beyond the edge: mask the load and the store."),
    no_races(advice="Each column belongs to one program, which goes through all rows. Only that program stores it."),
    placement("device"),
    parity(
        reference,
        why="Each column has a sum of its own, over all rows.",
        advice="Add whole rows of a block: total += tl.load(…), once for each row. The lanes are the columns.",
    ).with_points(2),
    syncs(at_most=0, why="The host needs no value.", advice="Take the sizes from x.shape."),
    launches(
        1,
        by_name={"aten::*": 0},
        why="One launch adds up all columns.",
        advice="Launch the kernel once, with a program for each block of columns, and store every sum there.",
    ),
    programs(
        lambda drawn, machine: 1 + (drawn["x"].shape[1] > WIDEST),
        advice="A program for each block of columns: triton.cdiv(columns, BLOCK) of them.",
    ),
    coalesced(
        at_least=0.75,
        why="Lanes that are a row apart move a sector of 32 bytes for each 4 bytes that they use.",
        advice="Number the columns with tl.arange: neighboring lanes load neighboring columns. Loop over the rows.",
    ),
    traffic(
        at_most=1.3,
        why="Each element is needed once.",
        advice="Load each row of the block once, and keep the sums in a variable of the program.",
    ),
    Check(
        "blocks",
        lambda machine: "Each program has a column for each lane of a warp",
        idle_lanes,
        (),
        "A warp has 32 lanes. In a narrower block, some have nothing to do, and the GPU starts more programs.",
        "Make the blocks wider: 32 columns or more.",
        lambda machine: machine.virtual,
    ),
]
