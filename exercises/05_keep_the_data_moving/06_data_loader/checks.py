"""Batches arrive on the device by asynchronous copies of bytes, from a DataLoader with workers."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import Check, Finding, Run, called, parity, placement, source, structure, syncs, transfers
from gpututor.trace.events import Kind

BY_LOADER, BY_HAND = "sample read by a DataLoader", "sample read by hand"
"""Marks in the trace, one for each sample that is read."""


def reference(
    pictures: torch.Tensor, labels: torch.Tensor, batch_size: int, workers: int
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The batches cut by hand, on the CPU."""
    return [
        ((pictures[start : start + batch_size].double() / 255).float(), labels[start : start + batch_size])
        for start in range(0, len(labels), batch_size)
    ]


def copies(drawn: dict[str, Any], machine: Any) -> int:
    """Pictures and labels of each batch."""
    return 2 * -(-len(drawn["labels"]) // int(drawn["batch_size"]))


def unread(run: Run) -> Finding | None:
    """Find a call in which samples were read by hand, or not all by a loader. The data set marks each read."""
    for call in run.calls:
        samples = len(call.drawn["labels"])
        marks = [event for event in call.trace if event.kind is Kind.RANGE]
        loaded = sum(event.name == BY_LOADER for event in marks)
        by_hand = [event for event in marks if event.name == BY_HAND]
        if loaded >= samples > len(by_hand):
            continue
        got = f"{loaded or 'none'} read by a DataLoader" + (f", and {len(by_hand)} read by hand" if by_hand else "")
        line = by_hand[-1].line if by_hand else run.line_of(call)
        return Finding(f"{samples} samples read by a DataLoader, and not by hand", got + run.which(call), line)
    return None


checks = [
    structure(reference, advice="A list with a tuple (x, y) for each batch, the last one included; x in float32."),
    source(
        require=(called("DataLoader", pin_memory=True), called("DataLoader", num_workers=...)),
        why="Each option does its own part: workers read the next batches while the device computes, and pinned memory"
        " lets the host continue while a batch is copied.",
        advice="DataLoader(dataset, batch_size=batch_size, num_workers=workers, pin_memory=True).",
    ),
    Check(
        "loaded",
        lambda _: "All batches come out of the DataLoader",
        unread,
        needs=("source",),
        why="The workers read ahead only while you iterate over the loader.",
        advice="Loop over the loader: `for pictures, labels in loader:`.",
    ),
    placement(
        why="The model that will see these batches is on the device.",
        advice="A DataLoader leaves its batches on the CPU: move both parts of each one.",
    ),
    transfers(
        to_device=copies,
        asynchronous_to_device=copies,
        to_host=0,
        bytes_to_device=lambda drawn, machine: drawn["pictures"].nbytes + drawn["labels"].nbytes,
        why="The host can continue while a pinned batch is copied, and bytes take a quarter of the time of floats.",
        advice="pin_memory=True in the DataLoader, non_blocking=True at both copies, and .float() after the copy.",
    ),
    syncs(
        why="A host that waits for a batch reads and launches nothing meanwhile.",
        advice="Nothing here needs a wait: look for an .item(), a print or a synchronize.",
    ),
    parity(reference, advice="Divide by 255, on the device, and keep the order of the data set."),
]
