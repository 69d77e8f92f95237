"""`torch.cuda.Stream` and `torch.cuda.Event`: the order of work, waits and elapsed time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from gpututor.devices.recorder import Recorder
from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.trace.events import Kind
from tests.support.threads import started

CUDA: Any = torch.cuda
MILLION = 1_000_000


def test_streams_are_of_torchs_classes_and_equal_by_their_id(two_gpus: VirtualMachine) -> None:
    stream: Any = CUDA.Stream(device=1, priority=-1)
    assert isinstance(stream, CUDA.Stream)
    assert issubclass(CUDA.Stream, torch.Stream)
    assert isinstance(CUDA.current_stream(), CUDA.Stream)
    assert CUDA.streams.Stream is CUDA.Stream
    assert (str(stream.device), stream.device_index, stream.priority) == ("cuda:1", 1, -1)
    assert repr(stream) == f"<torch.cuda.Stream device=cuda:1 cuda_stream={stream.cuda_stream:#x}>"
    assert repr(CUDA.default_stream()) == "<torch.cuda.Stream device=cuda:0 cuda_stream=0x0>"
    assert CUDA.Stream.priority_range() == (0, -3)
    assert stream.__cuda_stream__() == (0, stream.cuda_stream)
    stream, other = CUDA.Stream(), CUDA.Stream()
    with CUDA.stream(stream):
        again = CUDA.current_stream()
    assert again == stream
    assert hash(again) == hash(stream)
    assert stream not in (other, CUDA.default_stream(), CUDA.Stream(1), None)
    assert len({stream, again, other}) == 2
    assert len({item.cuda_stream for item in (stream, other, CUDA.default_stream(), CUDA.Stream(1))}) == 4


@pytest.mark.parametrize(("priority", "pool"), [(0, 1), (-1, 2), (-3, 4), (-9, 4)])
def test_the_stream_pool_wraps_around_after_32_streams(two_gpus: VirtualMachine, priority: int, pool: int) -> None:
    streams = [CUDA.Stream(priority=priority) for _ in range(33)]
    assert streams[32] == streams[0]
    assert len(set(streams)) == 32
    assert [stream.stream_id for stream in streams[:3]] == [place << 5 | pool << 1 | 1 for place in range(3)]
    assert CUDA.Stream(1, priority=priority).stream_id == streams[0].stream_id


def test_wrong_streams_are_refused_in_torchs_words(two_gpus: VirtualMachine) -> None:
    with pytest.raises(RuntimeError, match="Expected cuda stream priority to be less than or equal to 0, got 1"):
        CUDA.Stream(priority=1)
    with pytest.raises(torch.AcceleratorError, match="invalid device ordinal"):
        CUDA.Stream(7)
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        CUDA.Stream("cpu")
    with pytest.raises(NotImplementedError, match="streams of other libraries"):
        CUDA.Stream(stream_id=0x5000, device_index=0, device_type=1).query()


def test_without_cuda_streams_cannot_be_created() -> None:
    with virtual_gpu(backends=("mps",)):
        with pytest.raises(RuntimeError, match=r"torch.cuda.Stream requires CUDA support"):
            CUDA.Stream()
        with pytest.raises(NotImplementedError, match=r"torch\.Stream"):
            torch.Stream()
    with virtual_gpu(0), pytest.raises(RuntimeError, match="No CUDA GPUs are available"):
        CUDA.Stream()


def _current() -> tuple[int, int, int]:
    return CUDA.current_device(), CUDA.current_stream(0).stream_id, CUDA.current_stream(1).stream_id


@pytest.mark.parametrize("as_context", [CUDA.stream, lambda stream: stream])
def test_stream_blocks_nest_across_devices_and_restore_state(two_gpus: VirtualMachine, as_context: Any) -> None:
    here, there = CUDA.Stream(0), CUDA.Stream(1)
    seen = []
    with as_context(here):
        seen.append(_current())
        with as_context(there):
            seen.append(_current())
            with as_context(here), as_context(here):
                seen.append(_current())
            seen.append(_current())
        seen.append(_current())
    inner = (1, here.stream_id, there.stream_id)
    outer = (0, here.stream_id, 0)
    assert seen == [outer, inner, (0, *inner[1:]), inner, outer]
    assert _current() == (0, 0, 0)
    with CUDA.stream(None):
        assert _current() == (0, 0, 0)


def test_set_stream_changes_the_device_too_and_holds_for_one_thread(two_gpus: VirtualMachine) -> None:
    there = CUDA.Stream(1)
    CUDA.set_stream(there)
    assert _current() == (1, 0, there.stream_id)
    torch.accelerator.set_stream(CUDA.default_stream(0))
    assert _current() == (0, 0, there.stream_id)
    assert torch.accelerator.current_stream(1).stream_id == there.stream_id
    assert type(torch.accelerator.current_stream()) is torch.Stream
    seen: list[Any] = []
    with CUDA.stream(CUDA.Stream()):
        started(lambda: seen.append(CUDA.current_stream())).join()
    assert seen == [CUDA.default_stream()]


def test_the_trace_records_the_current_stream(recorder: Recorder) -> None:
    x = torch.ones(3, device="cuda")
    first, second = CUDA.Stream(), CUDA.Stream()
    with CUDA.stream(second):
        x.sin()
    with first:
        x.cos()
    x.tan()
    streams = [(event.name, event.stream) for event in recorder.trace if event.kind is Kind.KERNEL]
    assert streams[1:] == [("aten::sin", 2), ("aten::cos", 1), ("aten::tan", 0)]


def test_synchronize_waits_for_all_streams_of_one_gpu(two_gpus: VirtualMachine) -> None:
    here, there = CUDA.Stream(0), CUDA.Stream(1)
    for stream in (here, there):
        with stream:
            CUDA._sleep(MILLION)
    CUDA.synchronize(0)
    assert (here.query(), there.query()) == (True, False)
    torch.accelerator.synchronize(1)
    assert there.query()


def test_waits_are_recorded_with_their_duration(recorder: Recorder) -> None:
    stream = CUDA.Stream()
    event = CUDA.Event()
    for wait in (stream.synchronize, event.synchronize, CUDA.synchronize, torch.accelerator.synchronize):
        with stream:
            CUDA._sleep(MILLION)
            event.record()
        wait()
    waits = [event for event in recorder.trace if event.kind is Kind.SYNCHRONISE]
    assert [entry.name for entry in waits] == [
        *("torch.cuda.Stream.synchronize", "torch.cuda.Event.synchronize", "torch.cuda.synchronize"),
        "torch.accelerator.synchronize",
    ]
    assert all(entry.end - entry.start > 500_000 for entry in waits)


def test_a_sleep_kernel_takes_cycles_divided_by_the_clock_rate() -> None:
    with virtual_gpu(1, "H100", obey_environment=False) as machine:
        start, end = CUDA.Event(enable_timing=True), CUDA.Event(enable_timing=True)
        start.record()
        CUDA._sleep(10 * MILLION)
        end.record()
        end.synchronize()
        cycles_ms = 10 * MILLION / machine.gpus[0].spec.clock_khz
        assert start.elapsed_time(end) == pytest.approx(cycles_ms, abs=0.02)
        assert end.elapsed_time(start) == -start.elapsed_time(end)


def test_torch_streams_without_a_device_are_on_the_gpu(two_gpus: VirtualMachine) -> None:
    stream = torch.Stream("cuda:1")
    assert repr(stream) == f"torch.Stream device_type=cuda, device_index=1, stream_id={stream.stream_id}"
    assert (torch.Stream().device, torch.Stream(1).device) == (torch.device("cuda", 0), torch.device("cuda", 1))
    with stream:
        assert (CUDA.current_device(), CUDA.current_stream().stream_id) == (1, stream.stream_id)
        CUDA._sleep(MILLION)
    assert not stream.query()
    torch.Stream(0).wait_stream(stream)
    event = stream.record_event()
    assert isinstance(event, torch.Event)
    event.synchronize()
    assert stream.query()
    assert not stream.is_capturing()


def test_events_are_of_torchs_classes_and_complete_until_recorded(two_gpus: VirtualMachine) -> None:
    event = CUDA.Event()
    CUDA._sleep(MILLION)
    now = two_gpus.clock.host.now
    event.synchronize()
    event.wait()
    assert event.query()
    assert two_gpus.clock.host.now == now
    assert isinstance(event, CUDA.Event)
    assert issubclass(CUDA.Event, torch.Event)
    assert CUDA.streams.Event is CUDA.Event
    assert (repr(event), event.device, event.cuda_event) == ("<torch.cuda.Event uninitialized>", None, 0)
    event.record(CUDA.Stream(1))
    assert (repr(event), str(event.device)) == (f"<torch.cuda.Event {event.cuda_event:#x}>", "cuda:1")
    assert CUDA.Event(True, True, False)._timing
    assert isinstance(CUDA.current_stream().record_event(), CUDA.Event)
    assert repr(torch.Event("cuda")) == "torch.Event device_type=cuda, device_index=-1, event_flag=0, event_id=0"


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


def test_streams_and_events_of_another_machine_raise() -> None:
    with virtual_gpu(2):
        stream = CUDA.Stream(1)
        CUDA._sleep(MILLION)
        event = CUDA.current_stream().record_event()
    with pytest.raises(RuntimeError, match="switched off"):
        stream.synchronize()
    with virtual_gpu(1):
        with pytest.raises(torch.AcceleratorError, match="invalid device ordinal"):
            stream.query()
        for use in (event.query, event.synchronize, event.wait):
            with pytest.raises(RuntimeError, match="recorded on a virtual GPU that is switched off"):
                use()
        event.record()
        event.synchronize()
