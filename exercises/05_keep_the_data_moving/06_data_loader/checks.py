"""Batches arrive on the device by asynchronous copies of bytes, from a DataLoader with workers."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import Check, Finding, Run, called, parity, placement, source, structure, syncs, transfers
from gpututor.trace.events import Kind


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
    """A loader draws a seed when it is iterated, and stacks the pictures and the labels of each batch, on the CPU."""
    for call in run.calls:
        names = [event.name for event in call.trace if event.kind is Kind.KERNEL and event.device == "cpu"]
        batches = copies(call.drawn, run.machine) // 2
        read = names.count("aten::stack") // 2 if "aten::random_" in names else 0
        if read < batches:
            got = f"{read or 'none'}{run.which(call)}"
            return Finding(f"{batches} batches that come out of a DataLoader", got, run.line_of(call))
    return None


checks = [
    structure(reference, advice="A list with a tuple (x, y) for each batch, the last one included; x in float32."),
    source(
        require=(called("DataLoader", pin_memory=True), called("DataLoader", num_workers=...)),
        why="Each option does its own part: workers read the next batches while the device computes, and pinned memory"
        " lets the host go on while a batch is copied.",
        advice="DataLoader(dataset, batch_size=batch_size, num_workers=workers, pin_memory=True).",
    ),
    Check(
        "loaded",
        lambda _: "All batches come out of the DataLoader",
        unread,
        needs=("source",),
        why="Only a loader that is iterated has its workers read ahead. One that is made and left aside does nothing.",
        advice="Let the loop be over the loader: `for pictures, labels in loader:`.",
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
        why="A pinned batch lets the host go on while it is copied, and a byte is a quarter of a floating number.",
        advice="pin_memory=True in the DataLoader, non_blocking=True at both copies, and .float() after the copy.",
    ),
    syncs(
        why="A host that waits for a batch reads and launches nothing meanwhile.",
        advice="Nothing here needs a wait: look for an .item(), a print or a synchronize.",
    ),
    parity(reference, advice="Divide by 255, on the device, and keep the order of the data set."),
]
