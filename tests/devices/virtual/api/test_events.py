"""`torch.cuda.Event`: completion, waits and elapsed time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor.devices.virtual import VirtualMachine, virtual_gpu

CUDA: Any = torch.cuda
MILLION = 1_000_000


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
@pytest.mark.parametrize("module", [torch.cuda, torch], ids=["cuda", "generic"])
def test_elapsed_time_raises_torchs_errors(
    two_gpus: VirtualMachine,
    module: Any,
    timing: bool,
    record: Callable[[Any, Any], None],
    error: type[Exception],
    words: str,
) -> None:
    start, end = (module.Event(enable_timing=timing) for _ in range(2))
    record(start, end)
    with pytest.raises(error, match=words):
        start.elapsed_time(end)


def test_wait_event_does_not_block_the_host(two_gpus: VirtualMachine) -> None:
    with CUDA.Stream():
        CUDA._sleep(100 * MILLION)
        event = CUDA.current_stream().record_event()
    event.wait(CUDA.default_stream())
    assert two_gpus.clock.host.now < MILLION
    assert not CUDA.default_stream().query()


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
            start, end = CUDA.Event(enable_timing=True), CUDA.Event(enable_timing=True)
            x = torch.ones(256, 256, device="cuda")
            start.record()
            (x @ x).relu().sum()
            end.record()
            end.synchronize()
            assert end.elapsed_time(start) == -start.elapsed_time(end)
            return float(start.elapsed_time(end))

    assert run() == run()
