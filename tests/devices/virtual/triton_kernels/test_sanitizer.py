"""Mistakes within a kernel that a GPU does not report: the error names kernel, line, program and element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual.triton_kernels.accesses import TritonMemoryError
from gpututor.trace.events import Kind
from gpututor.trace.hazards import OUT_OF_BOUNDS, SAME_ELEMENT, UNWRITTEN

triton = pytest.importorskip("triton", reason="Triton has wheels for Linux only")
tl: Any = pytest.importorskip("triton.language")


@triton.jit
def copy(x, out, n, shift, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + at + shift, mask=at < n)
    tl.store(out + at, values, mask=at < n)


LOAD, STORE = copy.starting_line_number + 3, copy.starting_line_number + 4


@triton.jit
def same(out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at + 2 * tl.program_id(0), at)


@triton.jit
def count(out, lock, LOCKED: tl.constexpr):
    if LOCKED:
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
    tl.store(out, tl.load(out) + 1)
    if LOCKED:
        tl.atomic_xchg(lock, 0)


@triton.jit
def add_up(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + at, mask=at < n, other=0.0)))


@triton.jit
def shift(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at + 1, mask=at + 1 < n, other=0.0), mask=at < n)


@triton.jit
def clear_and_add(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(out, 0.0)
    tl.atomic_add(out, tl.sum(tl.load(x + at)))


@triton.jit
def last_adds_up(x, parts, done, out, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(parts + tl.program_id(0), tl.sum(tl.load(x + at)))
    if tl.atomic_add(done, 1) == PROGRAMS - 1:
        tl.store(out, tl.sum(tl.load(parts + tl.arange(0, PROGRAMS))))


@triton.jit
def either(left, right, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(left + at, at)
    else:
        tl.store(right + at, at)


@triton.jit
def follow(pointers, out):
    there = tl.load(pointers).to(tl.pointer_type(tl.float32))
    tl.store(out, tl.load(there))


def ones(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, device="cuda")


def empty(*shape: int) -> torch.Tensor:
    return torch.empty(*shape, device="cuda")


@pytest.fixture(autouse=True)
def _on_a_machine(recorder: Recorder) -> None:
    """Run each test on a machine."""


@pytest.mark.parametrize(
    ("launch", "kind", "line", "words"),
    [
        (lambda: copy[(2,)](ones(100), empty(128), 128, 0, BLOCK=64), OUT_OF_BOUNDS, LOAD, r"program 1: .* x\[100\]"),
        (lambda: copy[(1,)](ones(64), empty(64), 64, -1, BLOCK=64), OUT_OF_BOUNDS, LOAD, r"program 0: .* x\[-1\]"),
        (lambda: copy[(2,)](ones(128), empty(100), 128, 0, BLOCK=64), OUT_OF_BOUNDS, STORE, r"out\[100\].*28 of 64"),
        (lambda: copy[(1,)](ones(9, 2)[:, 0], empty(64), 2, 0, BLOCK=4), OUT_OF_BOUNDS, LOAD, r"x\[1\].*between"),
        (lambda: copy[(1,)](ones(4, 8)[:2], empty(64), 17, 0, BLOCK=32), OUT_OF_BOUNDS, LOAD, r"x\[16\].*16 elements"),
        (lambda: copy[(1,)](empty(64), empty(64), 64, 0, BLOCK=64), UNWRITTEN, LOAD, r"x\[0\].*torch.empty"),
        (
            lambda: same[(2,)](empty(8).int(), BLOCK=4),
            SAME_ELEMENT,
            None,
            r"program 1: it stores to out\[2\].*program 0",
        ),
        (lambda: count[(3,)](torch.zeros(1, device="cuda"), None, LOCKED=False), SAME_ELEMENT, None, r"out\[0\]"),
        (lambda: shift[(4,)](ones(16), 16, BLOCK=4), SAME_ELEMENT, None, r"program 1: .*x\[4\], and program 0 loads"),
        (lambda: clear_and_add[(2,)](ones(8), empty(1), BLOCK=4), SAME_ELEMENT, None, r"program 1: .*out\[0\] atomic"),
        (lambda: add_up[(1,)](ones(8), empty(1), 8, BLOCK=8), UNWRITTEN, None, r"an atomic operation reads out\[0\]"),
        (lambda: follow[(1,)](torch.tensor([1 << 20], device="cuda"), empty(1)), OUT_OF_BOUNDS, None, "no tensor arg"),
    ],
)
def test_a_mistake_names_kernel_line_program_and_element(
    launch: Callable[[], Any], kind: str, line: int | None, words: str, recorder: Recorder
) -> None:
    with pytest.raises(TritonMemoryError, match=words) as caught:
        launch()
    assert caught.value.kind == kind
    assert caught.value.place[0] == __file__
    if line is not None:
        assert caught.value.place[1] == line
        assert f"kernel copy, line {line}, program" in str(caught.value)
    (hazard,) = (event for event in recorder.complete() if event.kind is Kind.HAZARD)
    assert (hazard.name, hazard.file, hazard.line) == (kind, __file__, caught.value.place[1])


def test_nothing_is_read_or_written_outside() -> None:
    whole = torch.zeros(3, 64, device="cuda")
    with pytest.raises(TritonMemoryError):
        copy[(2,)](ones(128), whole[1], 128, 0, BLOCK=64)
    assert whole.sum(1).tolist() == [0.0, 64.0, 0.0]


def test_elements_are_written_one_by_one() -> None:
    x, half, out = ones(64), empty(64), empty(64)
    copy[(1,)](x, half, 32, 0, BLOCK=64)
    copy[(1,)](half, out, 32, 0, BLOCK=64)
    with pytest.raises(TritonMemoryError, match=r"x\[32\]"):
        copy[(1,)](half, out, 33, 0, BLOCK=64)
    copy[(1,)](x, half[32:], 32, 0, BLOCK=32)
    copy[(1,)](half, out, 64, 0, BLOCK=64)
    assert torch.equal(out, x)


def test_operators_and_copies_write_too() -> None:
    out = empty(8)
    made: list[torch.Tensor] = [torch.zeros(8, device="cuda"), torch.arange(8, device="cuda").float(), ones(8) * 2]
    made += [torch.rand(8).to("cuda"), empty(8).fill_(3), empty(8).copy_(torch.rand(8)), empty(8).normal_()]
    base = empty(2, 8)
    base[1] = 4
    for x in (*made, base[1], torch.stack(made)[3], torch.nn.Linear(8, 1, device="cuda").weight[0].detach()):
        copy[(1,)](x, out, 8, 0, BLOCK=8)
        assert torch.equal(out, x)


def test_locks_and_atomics_order_programs() -> None:
    total, lock = torch.zeros(1, device="cuda"), torch.zeros(1, device="cuda", dtype=torch.int32)
    count[(5,)](total, lock, LOCKED=True)
    assert total.item() == 5
    add_up[(4,)](ones(100), total, 100, BLOCK=32)
    assert total.item() == 105
    done = torch.zeros(1, device="cuda", dtype=torch.int32)
    last_adds_up[(4,)](ones(16), empty(4), done, total, PROGRAMS=4, BLOCK=4)
    assert total.item() == 16


def test_one_tensor_as_input_and_output_is_no_race() -> None:
    x = torch.arange(100.0, device="cuda")
    copy[(4,)](x, x, 100, 0, BLOCK=32)
    assert x.tolist() == list(np.arange(100.0))


def test_arguments_of_one_tensor_share_their_elements() -> None:
    x = torch.zeros(8, device="cuda", dtype=torch.int32)
    either[(2,)](x, x[4:], BLOCK=4)
    assert x.tolist() == [0, 1, 2, 3] * 2
    with pytest.raises(TritonMemoryError, match=r"right\[0\].*and so does program 0"):
        either[(2,)](x, x[3:], BLOCK=4)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64])
def test_arguments_of_several_dtypes_share_their_bytes(dtype: torch.dtype) -> None:
    x = torch.zeros(8, device="cuda", dtype=torch.int32)
    with pytest.raises(TritonMemoryError, match="and so does program 0"):
        either[(2,)](x, x.view(dtype), BLOCK=4)
