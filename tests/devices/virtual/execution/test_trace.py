"""Events that the virtual GPU records: one for each operation, with bytes and the line that caused it."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import pinned, virtual_gpu
from gpututor.trace.events import Event, Kind
from gpututor.trace.serialization import trace_from_json, trace_to_json

K, T, S = Kind.KERNEL, Kind.TRANSFER, Kind.SYNCHRONISE
MEMORY = (Kind.ALLOCATE, Kind.FREE)


def _new(recorder: Recorder, call: Callable[[], object]) -> list[Event]:
    """Return the device events of `call`, without memory events."""
    start = len(recorder.trace)
    call()
    return [event for event in recorder.trace.since(start) if event.kind not in MEMORY]


def _short(events: list[Event]) -> list[tuple[object, ...]]:
    return [
        (event.kind, event.source, event.target, event.size_bytes) if event.kind is T else (event.kind, event.name)
        for event in events
        if not (event.kind is K and event.device == "cpu")
    ]


DOWN_4 = [(T, "cuda:0", "cpu", 4), (S, "aten::_local_scalar_dense")]
DOWN_24 = [(T, "cuda:0", "cpu", 24), (S, "aten::_to_copy")]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x: torch.zeros(6, device="cuda"), [(K, "aten::zeros")]),
        (lambda x: torch.empty(6, device="cuda"), []),
        (lambda x: torch.randn(6, device="cuda"), [(K, "aten::randn")]),
        (lambda x: torch.tensor([1.0, 2.0], device="cuda"), [(T, "cpu", "cuda:0", 8)]),
        (lambda x: x.__setitem__(0, 5), [(T, "cpu", "cuda:0", 4)]),
        (lambda x: x.__setitem__(slice(2), 5), [(K, "aten::fill_")]),
        (lambda x: x.__setitem__([0, 1], 5), [(T, "cpu", "cuda:0", 16), (K, "aten::index_put_")]),
        (lambda x: torch.ones(6).cuda(), [(T, "cpu", "cuda:0", 24)]),
        (lambda x: torch.ones(0).cuda(), []),
        (lambda x: x.to("cuda"), []),
        (lambda x: x.to("cuda:1"), [(T, "cuda:0", "cuda:1", 24)]),
        (lambda x: x.to(torch.float16), [(K, "aten::_to_copy")]),
        (lambda x: x.cpu(), DOWN_24),
        (lambda x: x.tolist(), DOWN_24),
        (lambda x: torch.zeros(6).copy_(x), [(T, "cuda:0", "cpu", 24), (S, "aten::copy_")]),
        (lambda x: x.copy_(torch.zeros(6)), [(T, "cpu", "cuda:0", 24)]),
        (lambda x: x.copy_(torch.zeros(1)), [(T, "cpu", "cuda:0", 24)]),
        (lambda x: x[0].item(), DOWN_4),
        (lambda x: float(x[0]), DOWN_4),
        (lambda x: bool(x[0]), DOWN_4),
        (lambda x: repr(x), [(T, "cuda:0", "cpu", 24), (S, "print")]),
        (lambda x: x.nonzero(), [(K, "aten::nonzero"), (S, "aten::nonzero")]),
        (lambda x: x[x > 0], [(K, "aten::gt"), (K, "aten::index"), (S, "aten::index")]),
        (
            lambda x: x.masked_select(x > 0)[:0],
            [(K, "aten::gt"), (K, "aten::masked_select"), (S, "aten::masked_select")],
        ),
        (lambda x: torch.equal(x, x), [(K, "aten::equal"), (S, "aten::equal")]),
        (lambda x: torch.allclose(x, x), [(K, "aten::allclose"), (S, "aten::allclose")]),
        (lambda x: torch.where(x > 0, x, x), [(K, "aten::gt"), (K, "aten::where")]),
        (lambda x: x[torch.tensor([1, 2])], [(T, "cpu", "cuda:0", 16), (K, "aten::index")]),
        (lambda x: x.view(2, 3).t().detach()[0].unsqueeze(0), []),
        (lambda x: x + 1, [(K, "aten::add")]),
        (lambda x: x.view(2, 3) @ x.view(3, 2), [(K, "aten::mm")]),
        (lambda x: x.reshape(2, 3).t().reshape(6), [(K, "aten::clone")]),
        (lambda x: torch.cuda.synchronize(), [(S, "torch.cuda.synchronize")]),
        (lambda x: torch.accelerator.synchronize(), [(S, "torch.accelerator.synchronize")]),
        (lambda x: x.is_cuda and x.shape and x.device, []),
    ],
)
def test_each_operation_is_recorded_once(
    recorder: Recorder, call: Callable[[torch.Tensor], object], expected: list[tuple[object, ...]]
) -> None:
    x = torch.arange(6.0, device="cuda")
    assert _short(_new(recorder, lambda: call(x))) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        # A blocking copy converts on the CPU: the new dtype goes up, the old one comes down.
        (lambda host, x: host.to("cuda", torch.float16), [(T, "cpu", "cuda:0", 12)]),
        (lambda host, x: host.to("cuda", torch.float64), [(T, "cpu", "cuda:0", 48)]),
        (lambda host, x: host.half().to("cuda"), [(T, "cpu", "cuda:0", 12)]),
        (lambda host, x: host.to("cuda").half(), [(T, "cpu", "cuda:0", 24), (K, "aten::_to_copy")]),
        (lambda host, x: x.to("cpu", torch.float16), DOWN_24),
        (lambda host, x: x.half().cpu(), [(K, "aten::_to_copy"), (T, "cuda:0", "cpu", 12), (S, "aten::_to_copy")]),
        # A copy that does not block converts on the GPU.
        (
            lambda host, x: host.to("cuda", torch.float16, non_blocking=True),
            [(T, "cpu", "cuda:0", 24), (K, "aten::copy_")],
        ),
        (
            lambda host, x: x.to("cpu", torch.float16, non_blocking=True),
            [(K, "aten::_to_copy"), (T, "cuda:0", "cpu", 12)],
        ),
    ],
)
def test_a_move_with_a_new_dtype_transfers_cudas_bytes(
    recorder: Recorder, call: Callable[[torch.Tensor, torch.Tensor], object], expected: list[tuple[object, ...]]
) -> None:
    host, x = torch.ones(6), torch.ones(6, device="cuda")
    assert _short(_new(recorder, lambda: call(host, x))) == expected


def test_only_pinned_copies_are_asynchronous(recorder: Recorder) -> None:
    pageable, page_locked = torch.ones(4), torch.ones(4).pin_memory()
    assert pinned(page_locked)
    assert page_locked.is_pinned()
    assert page_locked[1:].is_pinned()
    assert not pinned(pageable)
    assert torch.ones(2, pin_memory=True).is_pinned()
    (first,) = (event for event in _new(recorder, lambda: pageable.to("cuda", non_blocking=True)))
    (second,) = (event for event in _new(recorder, lambda: page_locked.to("cuda", non_blocking=True)))
    (third,) = (event for event in _new(recorder, lambda: page_locked.to("cuda")))
    assert (first.asynchronous, second.asynchronous, third.asynchronous) == (False, True, False)
    x = torch.ones(4, device="cuda")
    assert [event.kind for event in _new(recorder, lambda: x.to("cpu", non_blocking=True))] == [T]


def test_events_carry_the_line_of_the_learners_file(recorder: Recorder) -> None:
    here = inspect.currentframe()
    assert here is not None
    start = len(recorder.trace)
    x = torch.ones(2, requires_grad=True, device="cuda")
    made = here.f_lineno - 1
    torch.nn.functional.softmax(x, dim=0).sum().backward()
    lines = {event.line for event in recorder.trace.since(start)}
    assert lines == {made, made + 2}
    elsewhere = Recorder(["/some/other/file.py"])
    assert elsewhere.place() == ("", None)


def test_nothing_is_recorded_while_the_recorder_is_off(recorder: Recorder) -> None:
    recorder.enabled = False
    x = torch.ones(2, device="cuda")
    x.add(1).cpu()
    repr(x)
    torch.cuda.synchronize()
    assert len(recorder.trace) == 0


def test_kernels_record_bytes_read_and_written(recorder: Recorder) -> None:
    x = torch.ones(2, 3, device="cuda")
    (event,) = _new(recorder, lambda: x @ x.t())
    assert (event.name, event.device, event.size_bytes) == ("aten::mm", "cuda:0", 24 + 24 + 16)


def test_traces_survive_serialization(recorder: Recorder) -> None:
    torch.ones(2, device="cuda").cpu()
    assert list(trace_from_json(trace_to_json(recorder.trace))) == list(recorder.trace)


def test_work_on_the_cpu_is_recorded_as_the_cpus() -> None:
    with virtual_gpu(1, recorder=Recorder()) as machine:
        torch.ones(2).add(1).view(2, 1)
    trace = machine.recorder.trace
    assert [(event.name, event.device) for event in trace] == [("aten::ones", "cpu"), ("aten::add", "cpu")]
