"""Page-locked memory that copies still use: which calls of the host read or change its values, and which bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import virtual_gpu
from gpututor.trace.events import Kind

READ, WRITE = "host read during copy", "host write during copy"


def hazards_of(program: Callable[[Any], None]) -> list[str]:
    recorder = Recorder([__file__])
    with virtual_gpu(1, "A100", recorder=recorder):
        program(torch.cuda.Stream())
        torch.cuda.synchronize()
    return [one.name for one in recorder.complete() if one.kind is Kind.HAZARD]


def from_gpu() -> torch.Tensor:
    return torch.ones(4, 4, device="cuda").to("cpu", non_blocking=True)


READING: list[Callable[[torch.Tensor], Any]] = [
    lambda h: h.sum(),
    lambda h: h.tolist(),
    lambda h: h[0, 0].item(),
    lambda h: float(h[1, 1]),
    lambda h: bool(h[0, 0]),
    lambda h: repr(h),
    lambda h: str(h),
    lambda h: f"{h[0, 0]:.1f}",
    lambda h: h.clone(),
    lambda h: h[1:].add(1),
]


@pytest.mark.parametrize("call", READING)
def test_the_host_reads_values(call: Callable[[torch.Tensor], Any]) -> None:
    def waits(side: Any) -> None:
        h = from_gpu()
        torch.cuda.current_stream().synchronize()
        call(h)

    assert hazards_of(lambda side: call(from_gpu())) == [READ]
    assert hazards_of(waits) == []


LOOKING: list[Callable[[torch.Tensor], Any]] = [
    lambda h: h[0],
    lambda h: h.t(),
    lambda h: h.detach(),
    lambda h: h.view(16),
    lambda h: h.chunk(2),
    lambda h: (h.shape, h.stride(), h.data_ptr(), h.is_pinned()),
    lambda h: h.numpy(),
]


@pytest.mark.parametrize("call", LOOKING)
def test_views_read_nothing(call: Callable[[torch.Tensor], Any]) -> None:
    assert hazards_of(lambda side: call(from_gpu())) == []


def test_a_loop_over_the_parts_of_a_buffer() -> None:
    def program(side: Any) -> None:
        x, o = torch.ones(8, 16, device="cuda"), torch.empty(8, 16, pin_memory=True)
        for i in range(8):
            o[i].copy_(x[i], non_blocking=True)

    assert hazards_of(program) == []


def test_a_loop_over_chunks_of_a_source() -> None:
    def program(side: Any) -> None:
        h = torch.ones(64).pin_memory()
        for i in range(0, 64, 16):
            h[i : i + 16].to("cuda", non_blocking=True)
            if i + 32 <= 64:
                h[i + 16 : i + 32].fill_(i)

    assert hazards_of(program) == []


def test_a_chunk_that_a_copy_reads_is_changed() -> None:
    def program(side: Any) -> None:
        h = torch.ones(64).pin_memory()
        h[:16].to("cuda", non_blocking=True)
        h[16:32].to("cuda", non_blocking=True)
        h[8:12].zero_()

    assert hazards_of(program) == [WRITE]


def test_a_source_that_two_streams_copy_of_which_one_is_waited_for() -> None:
    def program(side: Any) -> None:
        h = torch.ones(64).pin_memory()
        h.to("cuda", non_blocking=True)
        with torch.cuda.stream(side):
            h.to("cuda", non_blocking=True)
        side.synchronize()
        h.zero_()

    def both(side: Any) -> None:
        h = torch.ones(64).pin_memory()
        h.to("cuda", non_blocking=True)
        with torch.cuda.stream(side):
            h.to("cuda", non_blocking=True)
        side.synchronize()
        torch.cuda.current_stream().synchronize()
        h.zero_()

    assert hazards_of(program) == [WRITE]
    assert hazards_of(both) == []


def test_memory_of_a_buffer_that_is_gone_is_nobodys_business() -> None:
    def program(side: Any) -> None:
        for _ in range(20):
            torch.ones(64).pin_memory().to("cuda", non_blocking=True)
            torch.ones(64).pin_memory().zero_()

    assert hazards_of(program) == []


def test_two_streams_copy_over_one_buffer() -> None:
    def program(side: Any) -> None:
        x, h = torch.ones(64, device="cuda"), torch.empty(64, pin_memory=True)
        h.copy_(x, non_blocking=True)
        with torch.cuda.stream(side):
            h.to("cuda", non_blocking=True)

    def in_order(side: Any) -> None:
        x, h = torch.ones(64, device="cuda"), torch.empty(64, pin_memory=True)
        h.copy_(x, non_blocking=True)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            h.to("cuda", non_blocking=True)

    assert hazards_of(program) == ["read after write"]
    assert hazards_of(in_order) == []
