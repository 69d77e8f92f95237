"""The stream, thread and GPU that a block of memory belongs to."""

from __future__ import annotations

from typing import Any

import torch

from gpututor.devices.virtual import virtual_gpu
from gpututor.devices.virtual.memory.allocator import Allocation
from gpututor.trace.events import Event, Kind
from tests.support.threads import started
from tests.support.virtual_gpus import names_of, traced


def block_of(tensor: Any) -> Allocation:
    block = tensor._block
    assert isinstance(block, Allocation)
    return block


def streams(events: list[Event], kind: Kind) -> list[tuple[str, int]]:
    return [(event.device, event.stream) for event in events if event.kind is kind]


def test_each_thread_records_its_own_last_writer() -> None:
    with virtual_gpu(1, "A100") as machine:
        memory = machine.gpus[0].memory
        x = torch.ones(64, device="cuda").relu()
        mine = memory.of_thread.writer
        results: list[Any] = []

        def other() -> None:
            results.append(memory.of_thread.writer)
            with torch.cuda.stream(torch.cuda.Stream()):
                results.append(block_of(torch.ones(64, device="cuda")).home)

        started(other).join()
        assert results[0] is None
        assert results[1] != 0
        assert mine is not None
        assert memory.of_thread.writer is mine
        assert block_of(x).written is mine


def test_a_peer_copys_result_belongs_to_the_targets_stream() -> None:
    def program() -> None:
        side = torch.cuda.Stream("cuda:1")
        x = torch.ones(64, device="cuda:0")
        with torch.cuda.stream(side):
            y = x.to("cuda:1")
            y.relu_()
            del y

    events = traced(program, gpus=2)
    assert names_of(events, Kind.HAZARD) == []
    there = [stream for device, stream in streams(events, Kind.ALLOCATE) if device == "cuda:1"]
    assert there
    assert 0 not in there
    assert [stream for device, stream in streams(events, Kind.FREE) if device == "cuda:1"] == there


def test_freed_blocks_return_to_their_allocating_stream() -> None:
    def program() -> None:
        x = torch.ones(64, device="cuda")
        with torch.cuda.stream(torch.cuda.Stream()):
            y = torch.ones(64, device="cuda")
        del y, x

    events = traced(program)
    allocated = [stream for _, stream in streams(events, Kind.ALLOCATE)]
    assert sorted(allocated) == sorted(stream for _, stream in streams(events, Kind.FREE))
    assert allocated[0] == 0
    assert allocated[1] != 0
