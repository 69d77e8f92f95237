"""Copies hide behind work, nothing races, the host never waits, and few batches are on the device."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.checks import memory, overlap, parity, placement, races, structure, syncs, transfers
from gpututor.checks.model import Machine

BATCHES_AT_A_TIME = 3


def reference(batches: list[torch.Tensor], layers: list[torch.Tensor]) -> torch.Tensor:
    """All rows at once, on the CPU."""
    x = torch.cat(batches)
    for layer in layers:
        x = (x @ layer).tanh()
    return x


def copies(drawn: dict[str, Any], machine: Any) -> int:
    return len(drawn["batches"])


def few_batches(drawn: dict[str, Any], machine: Any) -> int:
    """Bytes of three batches, of the results, twice, and of the hidden values of a batch, with rounding."""
    rows = sum(len(batch) for batch in drawn["batches"])
    most = max(len(batch) for batch in drawn["batches"])
    results = 4 * rows * drawn["layers"][-1].shape[1]
    hidden = 4 * most * 3 * drawn["layers"][0].shape[1]
    largest = max(batch.nbytes for batch in drawn["batches"])
    return int(BATCHES_AT_A_TIME * largest + 2 * results + hidden + 512 * (len(drawn["batches"]) + 12))


TOO_FAST = ("H100", "H200", "B200")
"""GPUs on which these kernels take less time than their launches, so they hardly overlap with copies."""


def work_is_long_enough(machine: Machine) -> bool:
    return machine.virtual and machine.gpus > 0 and not any(name in machine.gpu_name for name in TOO_FAST)


checks = [
    structure(reference, advice="Join the results of the batches with torch.cat, along the rows."),
    placement(
        why="The next step reads the results on the device.",
        advice="Leave the results where forward() computed them.",
    ),
    transfers(
        to_device=copies,
        asynchronous_to_device=copies,
        to_host=0,
        why="A copy that blocks the host keeps it from launching the work that should run during the copy.",
        advice="The batches are pinned already: move each of them once, with non_blocking=True.",
    ),
    syncs(
        why="The order between streams is kept by the device. A host that waits launches nothing meanwhile.",
        advice="Use computing.wait_stream(copying), which makes a stream wait, not the host.",
    ),
    races(
        why="Two streams keep no order unless you ask for one: the products may read a batch that is still arriving, or"
        " the next copy may land in memory that is still read.",
        advice="Before the work: computing.wait_stream(copying), then x.record_stream(computing) for the batch that was"
        " allocated on the copying stream.",
    ),
    memory(
        peak=few_batches,
        why="A prefetcher that runs far ahead fills the device with batches that are not needed yet.",
        advice="Fetch one batch ahead, and keep no reference to batches that were computed.",
    ),
    overlap(
        to_device=0.6,
        on=work_is_long_enough,
        why="The copy of the next batch is free as long as the device computes at the same time.",
        advice="Launch the copy of batch i + 1, on its own stream, after the wait for batch i and before forward(): a"
        " wait_stream() waits for everything that was launched on that stream before.",
    ),
    parity(reference, why="The results are joined in the order of the batches.", advice="Use forward() as it is."),
]
