"""Batches arrive on the device by asynchronous copies of bytes, from a DataLoader with workers."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import called, parity, placement, source, structure, syncs, transfers


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


checks = [
    structure(reference, advice="A list with a tuple (x, y) for each batch, the last one included; x in float32."),
    source(
        require=(called("DataLoader", pin_memory=True), called("DataLoader", num_workers=...)),
        why="Each option does its own part: workers read the next batches while the device computes, and pinned memory"
        " lets the host go on while a batch is copied.",
        advice="DataLoader(dataset, batch_size=batch_size, num_workers=workers, pin_memory=True).",
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
