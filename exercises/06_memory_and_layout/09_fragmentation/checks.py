"""Features in order, the snapshot's free blocks, and no more segments than the longest text needs."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import Check, Finding, Run, launches, parity, placement, structure, syncs
from gpututor.trace.formatting import size

MIB = 1 << 20
WORD_BYTES = 2 * MIB
SLACK = 4 * MIB
"""Bytes for segments of small tensors, which have 2 MiB each."""


def features_of(texts: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack([text.max(dim=0).values + text.sum(0) / len(text) for text in texts])


def reference(texts: list[torch.Tensor], held_mib: int) -> dict[str, Any]:
    """The structure of the result, and the features."""
    return {"features": features_of(texts), "free": 0, "largest": 0}


def figure(name: str, sentence: str, advice: str) -> Check:
    """The allocator's own figure, within 1 MiB: small tensors may be gone when the function returns."""

    def find(run: Run) -> Finding | None:
        for call in run.calls:
            use = call.memory[run.machine.device]
            assert use.reserved is not None  # known on every virtual GPU
            assert use.largest_free is not None
            true = {"free": use.reserved - use.after, "largest": use.largest_free}[name]
            said = call.output[name]
            if abs(said - true) > MIB:
                return run.finding(call, f"result[{name!r}] within 1 MiB of {true:,} ({size(true)})", f"{said:,}")
        return None

    return Check(
        name,
        lambda machine: sentence,
        find,
        ("structure",),
        "Together they show if memory is short or only in pieces: much is free, but no block is large.",
        advice,
        kind="values",
    )


def too_many_segments(run: Run) -> Finding | None:
    """Find a call that reserves more than there was, plus a segment for the longest text."""
    for call in run.calls:
        use = call.memory[run.machine.device]
        longest = max(len(text) for text in call.drawn["texts"]) * WORD_BYTES
        there = (call.drawn["held_mib"] + 16) * MIB
        most = there + longest + SLACK
        assert use.reserved_peak is not None  # known on every virtual GPU
        if use.reserved_peak > most:
            return run.finding(
                call,
                f"at most {size(most)} reserved: {size(there)} from before, {size(longest)} for the longest text, and "
                f"{size(SLACK)} for small tensors",
                f"{size(use.reserved_peak)} reserved at the peak",
            )
    return None


checks = [
    structure(reference, advice="A dict with a tensor (n, d) and two plain ints: bytes, not MiB."),
    placement({"features": "device", "free": None, "largest": None}),
    parity(
        reference,
        why="The caller expects row i to belong to text i, whatever the order in which you embed them.",
        advice="Store each row at the position of its text.",
    ),
    figure(
        "free",
        "The cache's free bytes are right",
        "Read the snapshot after the loop. Add up the blocks whose state is inactive, also those in segments that "
        "hold a tensor; other memory of the GPU is not in the cache.",
    ),
    figure(
        "largest",
        "The largest free block is right",
        "Look at the blocks of each segment. If it holds a tensor, its free blocks are smaller than its total_size.",
    ),
    syncs(
        at_most=0,
        why="The host knows lengths, positions and the snapshot, so it can run ahead of the GPU. empty_cache() waits, "
        "too, and then PyTorch must ask the driver again.",
        advice="Sort by len(text), leave the features on the device, and let the cache serve the next text.",
    ),
    launches(
        by_name={"aten::amax": lambda drawn, machine: len(drawn["texts"])},
        name="once",
        why="embed() is most of the work. A call whose features nobody uses costs as much as any other.",
        advice="Keep the features of every call, and find an order in which no call is extra.",
    ),
    Check(
        "reserved",
        lambda machine: "PyTorch reserves no more than the longest text needs",
        too_many_segments,
        (),
        "Cached segments that are too small for later requests are lost, to this program and to all others on the GPU.",
        "A longer text cannot use a shorter text's segment, but a shorter text can use a longer text's segment.",
    ),
]
