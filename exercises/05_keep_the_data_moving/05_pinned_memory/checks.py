"""Every copy to the device is asynchronous, each batch crosses once in each pass, and one wait brings the result."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import memory, parity, placement, races, speed, structure, syncs, transfers


def reference(batches: list[torch.Tensor], start: torch.Tensor, passes: int) -> torch.Tensor:
    """Power iteration on all rows at once, on the CPU."""
    rows = torch.cat(batches)
    direction = start
    for _ in range(passes):
        direction = torch.nn.functional.normalize((rows @ direction) @ rows, dim=0)
    return direction


def copies(drawn: dict[str, Any], machine: Any) -> int:
    """Each batch once in each pass."""
    return len(drawn["batches"]) * int(drawn["passes"])


def two_batches(drawn: dict[str, Any], machine: Any) -> int:
    """Bytes of two batches and of a dozen vectors, with what the allocator rounds up."""
    return int(2 * drawn["batches"][0].nbytes + 12 * (drawn["start"].nbytes + 512))


checks = [
    structure(reference, advice="Return one vector of d values, as long as start."),
    placement("cpu", why="The caller reads the direction on the host.", advice="Fetch the last v with .cpu()."),
    transfers(
        to_device=copies,
        asynchronous_to_device=copies,
        to_host=1,
        why="A copy from pageable memory blocks the host until it is done; a copy from pinned memory need not.",
        advice="Two things are needed: pinned = batch.pin_memory(), whose result you must keep, and"
        " pinned.to(device, non_blocking=True). Copy each batch in each pass, and nothing else.",
    ),
    syncs(
        at_most=1,
        why="Asynchronous copies gain nothing if the host waits for the device afterwards.",
        advice="Work of one stream runs in order: the product waits for its copy by itself. Only the result at the end"
        " needs a wait.",
    ),
    races(
        why="The device still reads pinned memory while an asynchronous copy is under way.",
        advice="Do not write into a pinned buffer before its copy is done. Give each batch pinned memory of its own.",
    ),
    memory(
        peak=two_batches,
        why="The data set does not fit on the device: only the batch in use may be there.",
        advice="Copy a batch right before its products, and keep no reference to the ones before.",
    ),
    speed(
        0.85,
        compared_with="ordinary copies",
        why="Pinning takes the host longer than an ordinary copy: it pays when the memory is used again.",
        advice="Call pin_memory() before the first pass, once for each batch.",
    ),
    parity(reference),
]
