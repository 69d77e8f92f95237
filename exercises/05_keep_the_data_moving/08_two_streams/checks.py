"""The towers run at the same time, nothing races, and the host never waits."""

from __future__ import annotations

import torch

from gpututor.checks import overlap, parity, placement, races, structure, syncs, transfers
from gpututor.checks.model import Machine


def reference(features: torch.Tensor, left: list[torch.Tensor], right: list[torch.Tensor]) -> torch.Tensor:
    """Both towers on the CPU, in sequence."""
    x = features / features.square().sum(dim=1, keepdim=True).sqrt()
    results = []
    for layers in (left, right):
        hidden = x
        for layer in layers:
            hidden = hidden @ layer
        results.append(hidden.tanh())
    return torch.einsum("nc,nc->n", *results)


def work_is_long_enough(machine: Machine) -> bool:
    """Accept virtual GPUs on which these kernels take longer than their launches: on a B200 they do not."""
    return machine.virtual and machine.gpus > 0 and "B200" not in machine.gpu_name


checks = [
    structure(reference, advice="One number for each row: multiply the two results, and sum over dim=1."),
    placement(advice="Everything is on the device already: move nothing."),
    transfers(
        to_device=0,
        to_host=0,
        why="All of it is on the device, and the result belongs there.",
        advice="Look for a .cpu(), an .item() or an if.",
    ),
    syncs(
        why="A host that waits launches nothing, so the second tower cannot begin while the first one runs.",
        advice="Let a stream wait for a stream, not the host: lesson 5 names the call.",
    ),
    races(
        why="Two streams keep no order unless you ask for one.",
        advice="Two things cross between the streams: x at the fork, and a result at the join. Each crossing needs a"
        " wait, and the allocator must know if a stream uses memory of the other.",
    ),
    overlap(
        kernels=0.35,
        on=work_is_long_enough,
        why="Each kernel uses a part of the device only. The other tower could use the rest.",
        advice="Launch both towers before either stream waits for the other.",
    ),
    parity(reference, advice="Use tower() as it is, on the normalized features, for both lists of layers."),
]
