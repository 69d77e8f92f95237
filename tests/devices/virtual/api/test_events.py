"""`torch.cuda.Event`: completion, waits and elapsed time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor.devices.virtual import VirtualMachine, virtual_gpu

CUDA: Any = torch.cuda
MILLION = 1_000_000


def _timed(count: int = 2) -> list[Any]:
    return [CUDA.Event(enable_timing=True) for _ in range(count)]


def test_events_are_of_torchs_classes(two_gpus: VirtualMachine) -> None:
    event = CUDA.Event()
    assert isinstance(event, CUDA.Event)
    assert issubclass(CUDA.Event, torch.Event)
    assert CUDA.streams.Event is CUDA.Event
    assert (repr(event), event.device, event.cuda_event) == ("<torch.cuda.Event uninitialized>", None, 0)
    event.record(CUDA.Stream(1))
    assert (repr(event), str(event.device)) == (f"<torch.cuda.Event {event.cuda_event:#x}>", "cuda:1")
    assert CUDA.Event(True, True, False)._timing
    assert isinstance(CUDA.current_stream().record_event(), CUDA.Event)
    assert repr(torch.Event("cuda")) == "torch.Event device_type=cuda, device_index=-1, event_flag=0, event_id=0"


def test_an_unrecorded_event_is_complete(two_gpus: VirtualMachine) -> None:
    event = CUDA.Event()
    CUDA._sleep(MILLION)
    now = two_gpus.clock.host.now
    event.synchronize()
    event.wait()
    assert event.query()
    assert two_gpus.clock.host.now == now


def test_an_event_completes_after_the_work_before_it(two_gpus: VirtualMachine) -> None:
    before, after = CUDA.Event(), CUDA.Event()
    before.record()
    CUDA._sleep(MILLION)
    after.record()
    assert (before.query(), after.query()) == (True, False)
    after.synchronize()
    assert after.query()


def test_elapsed_time_is_the_time_of_the_work_between_events(two_gpus: VirtualMachine) -> None:
    start, end = _timed()
    start.record()
    CUDA._sleep(MILLION)
    end.record()
    end.synchronize()
    single = start.elapsed_time(end)
    assert isinstance(single, float)
    start.record()
    for _ in range(3):
        CUDA._sleep(MILLION)
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) == pytest.approx(3 * single, rel=0.05)
    assert end.elapsed_time(start) == -start.elapsed_time(end)


def _of_two_gpus(start: Any, end: Any) -> None:
    start.record(CUDA.default_stream(0))
    end.record(CUDA.default_stream(1))
    CUDA.synchronize(0)
    CUDA.synchronize(1)


def _unfinished(start: Any, end: Any) -> None:
    start.record()
    CUDA._sleep(MILLION)
    end.record()


@pytest.mark.parametrize(
    ("timing", "record", "error", "words"),
    [
        (False, _unfinished, ValueError, "Both events must be created with argument 'enable_timing=True'."),
        (True, lambda start, _: start.record(), ValueError, "Both events must be recorded before calculating elapsed"),
        (True, _unfinished, RuntimeError, "Both events must be completed before calculating elapsed time."),
        (True, _of_two_gpus, torch.AcceleratorError, "CUDA error: invalid resource handle"),
    ],
)
@pytest.mark.parametrize("kind", [CUDA.Event, torch.Event], ids=["cuda", "generic"])
def test_elapsed_time_raises_torchs_errors(
    two_gpus: VirtualMachine,
    kind: object,
    timing: bool,
    record: Callable[[Any, Any], None],
    error: type[Exception],
    words: str,
) -> None:
    make = CUDA.Event if kind is not torch.Event else torch.Event
    start, end = make(enable_timing=timing), make(enable_timing=timing)
    record(start, end)
    with pytest.raises(error, match=words):
        start.elapsed_time(end)


def test_an_event_belongs_to_the_gpu_that_recorded_it_first(two_gpus: VirtualMachine) -> None:
    event = CUDA.Event()
    event.record(CUDA.Stream(0))
    event.record(CUDA.Stream(0))
    # C++ prints the numbers of devices as characters.
    with pytest.raises(RuntimeError, match="Event device \x00 does not match recording stream's device \x01"):
        event.record(CUDA.Stream(1))
    CUDA.Stream(1).wait_event(event)


def test_a_stream_waits_for_an_event_of_another_gpu(two_gpus: VirtualMachine) -> None:
    with CUDA.device(0):
        CUDA._sleep(MILLION)
        event = CUDA.current_stream().record_event()
    waiting, other = CUDA.Stream(1), CUDA.Stream(1)
    waiting.wait_event(event)
    assert (waiting.query(), other.query()) == (False, True)
    event.synchronize()
    assert waiting.query()


def test_recording_again_does_not_affect_earlier_waits(two_gpus: VirtualMachine) -> None:
    busy, waiting = CUDA.Stream(), CUDA.Stream()
    event, early = CUDA.Event(), CUDA.Event()
    with busy:
        event.record()
        waiting.wait_event(event)
        CUDA._sleep(MILLION)
        event.record()
    early.record(waiting)
    assert (early.query(), event.query()) == (True, False)
    waiting.wait_event(event)
    late = waiting.record_event()
    assert not late.query()


def test_wait_event_does_not_block_the_host(two_gpus: VirtualMachine) -> None:
    with CUDA.Stream():
        CUDA._sleep(100 * MILLION)
        event = CUDA.current_stream().record_event()
    event.wait(CUDA.default_stream())
    assert two_gpus.clock.host.now < MILLION
    assert not CUDA.default_stream().query()


def test_events_are_not_shared_between_processes(two_gpus: VirtualMachine) -> None:
    with pytest.raises(NotImplementedError, match=r"torch.cuda.Event.ipc_handle"):
        CUDA.Event(interprocess=True).ipc_handle()
    with pytest.raises(NotImplementedError, match=r"torch.cuda.Event.from_ipc_handle"):
        CUDA.Event.from_ipc_handle("cuda:0", b"")
    with pytest.raises(NotImplementedError, match=r"torch.cuda.Event\(external=True\)"):
        CUDA.Event(external=True)


def test_an_event_of_another_machine_raises() -> None:
    with virtual_gpu():
        CUDA._sleep(MILLION)
        event = CUDA.current_stream().record_event()
    with virtual_gpu():
        for use in (event.query, event.synchronize, event.wait):
            with pytest.raises(RuntimeError, match="recorded on a virtual GPU that is switched off"):
                use()
        event.record()
        event.synchronize()


def test_elapsed_times_are_reproducible() -> None:
    def run() -> float:
        with virtual_gpu():
            start, end = _timed()
            x = torch.ones(256, 256, device="cuda")
            start.record()
            (x @ x).relu().sum()
            end.record()
            end.synchronize()
            return float(start.elapsed_time(end))

    assert run() == run()
