"""Calls of the CUDA runtime, and what they start on the device: `cudaLaunchKernel` and its kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpututor.devices.virtual.machine import VirtualMachine
from gpututor.devices.virtual.profiler import names
from gpututor.devices.virtual.profiler.session import Row, Span
from gpututor.trace.events import Kind

_CALL_SHARE = 2
"""The call of the runtime is taken for the last half of what a launch costs the host: a convention, nobody measured."""
_ON_DEVICE = (Kind.KERNEL, Kind.TRANSFER, Kind.COLLECTIVE)


@dataclass(slots=True)
class Call:
    """A call of the runtime; times in nanoseconds of the machine."""

    name: str
    begin: int
    end: int
    work: str = ""
    """The name of what it started on a device; empty for a wait."""
    row: Row | None = None
    """When and where that ran."""
    device_index: int = 0


def calls_of(rows: Sequence[Row], span: Span | None, machine: VirtualMachine, end: int) -> list[Call]:
    """The calls behind the events of an operator that was done at `end`; without a `span`, of a single event."""
    found: list[Call] = []
    for place, row in enumerate(rows):
        if row.kind is Kind.SYNCHRONISE:
            found.append(Call(names.of_call(row, ""), row.start, row.end))
        elif row.kind in _ON_DEVICE and row.device != "cpu":
            after = rows[place + 1] if place + 1 < len(rows) else None
            until = end if after is None else after.start if after.kind is Kind.SYNCHRONISE else after.told
            found += _launch(row, span, machine, until, waits_later=_waits(after))
    return found


def _launch(row: Row, span: Span | None, machine: VirtualMachine, until: int, *, waits_later: bool) -> list[Call]:
    gpu = machine.gpus[int(row.device.removeprefix("cuda:"))]
    work = names.of_device_work(row, span, gpu.spec)
    name = names.of_call(row, work)
    if span is None and row.launched == row.told:
        # The launch of a whole graph has been paid for.
        return [Call(names.GRAPH_LAUNCH, row.launched - gpu.launch_ns, row.launched, work, row, gpu.index)]
    begin = row.launched - (row.launched - row.told) // _CALL_SHARE
    blocks = names.is_copy(work) and not row.asynchronous and not waits_later and until > row.launched
    # A call ends late where the queue of launches is full.
    done = row.launched if names.is_copy(work) else max(row.launched, until)
    found = [Call(name, begin, done, work, row, gpu.index)]
    if blocks:
        # `memcpy_and_sync`, which is what torch calls for every copy that blocks.
        found.append(Call("cudaStreamSynchronize", row.launched, until))
    return found


def _waits(row: Row | None) -> bool:
    return row is not None and row.kind is Kind.SYNCHRONISE
