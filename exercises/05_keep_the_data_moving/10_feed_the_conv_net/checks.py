"""Bytes arrive by asynchronous copies, nothing waits, and the device has hardly any gaps."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from gpututor.checks import Call, Check, Finding, Run, called, parity, placement, source, structure, syncs, transfers
from gpututor.trace.events import WORK
from gpututor.trace.formatting import duration, share

LEAST_BUSY = 0.9
GAP_NS = 100_000
"""Shorter gaps are those between launches: on a fast GPU, kernels end before the host has launched the next one."""


def reference(pictures: torch.Tensor, weights: dict[str, torch.Tensor], batch_size: int, workers: int) -> torch.Tensor:
    """All pictures at once, by functions."""
    x = pictures.to(weights["last.bias"].dtype) / 255
    for layer in range(0, len(weights) - 2, 2):
        x = functional.conv2d(x, weights[f"{layer}.weight"], weights[f"{layer}.bias"], padding=1).relu()
    return x.mean(dim=(2, 3)) @ weights["last.weight"].T + weights["last.bias"]


def copies(drawn: dict[str, Any], machine: Any) -> int:
    """Return the number of batches."""
    return -(-len(drawn["pictures"]) // int(drawn["batch_size"]))


def longest_gaps(call: Call) -> tuple[int, list[tuple[int, int | None]]]:
    """Nanoseconds from the call to the end of the last work, and the long gaps: (nanoseconds, line after it)."""
    on_device = (event for event in call.trace if event.kind in WORK and event.device != "cpu")
    work = sorted((event.start, event.end, event.line) for event in on_device)
    free, gaps = call.span.started, []
    for start, end, line in work:
        if start - free > GAP_NS:
            gaps.append((start - free, line))
        free = max(free, end)
    return free - call.span.started, gaps


def has_gaps(run: Run) -> Finding | None:
    """Find a call in which the device waits for too long."""
    for call in run.calls:
        total, gaps = longest_gaps(call)
        idle = sum(gap for gap, _ in gaps)
        if idle > (1 - LEAST_BUSY) * total:
            longest, line = max(gaps)
            got = (
                f"{share(1 - idle / total)} of {duration(total)}; {len(gaps)} gaps, the longest of {duration(longest)}"
            )
            return run.finding(call, f"at least {share(LEAST_BUSY)} of the time busy", got, line)
    return None


def with_a_graph(run: Run) -> Finding | None:
    """Find scores that still have an autograd graph."""
    for call in run.calls:
        if call.output.fact.requires_grad:
            return run.finding(call, "scores that require no gradients", "the result requires gradients")
    return None


checks = [
    structure(reference, advice="Join the scores of the batches with torch.cat, along the pictures."),
    placement(
        why="Copying scores to the host batch by batch makes the host wait for each batch.",
        advice="Leave the scores where the model computed them.",
    ),
    transfers(
        to_device=copies,
        asynchronous_to_device=copies,
        to_host=0,
        bytes_to_device=lambda drawn, machine: drawn["pictures"].nbytes,
        why="While the host waits for a copy, it launches nothing. And bytes take a quarter of the time of floats.",
        advice="pin_memory=True in the DataLoader, non_blocking=True at the copy, .float() after it.",
    ),
    syncs(
        why="A host that waits for a batch neither fetches the next one nor launches it.",
        advice="Nothing in the loop needs a value on the CPU: look for .item(), .cpu() and print.",
    ),
    parity(reference, advice="Keep the order of the data set, and divide by 255."),
    Check(
        "graph",
        lambda _: "The scores have no graph",
        with_a_graph,
        needs=("structure",),
        why="A graph keeps the results of every layer in memory.",
        advice="Keep torch.inference_mode().",
    ),
    Check(
        "busy",
        lambda _: "The device is busy nearly all of the time",
        has_gaps,
        why="A GPU that waits for pictures costs as much as one that computes.",
        advice="The next batch has to be read while this one is computed. Which process reads in your program?",
        on=lambda machine: machine.virtual and machine.device != "cpu",
        timed=True,
    ),
    source(
        require=(called("DataLoader", num_workers=...),),
        name="workers",
        why="One process reads a batch in 1.5 times the GPU's time, so the GPU often waits.",
        advice="Pass the number of processes that the function gets to the DataLoader, as num_workers.",
    ),
]
