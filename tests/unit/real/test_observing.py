"""What is recorded of a device with times, on a device that only the tests move; the meta device stands for it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from gpututor.devices.observer import observe
from gpututor.devices.real import calls
from gpututor.devices.real.calls import TABLE
from gpututor.devices.real.memory import asked_for
from gpututor.devices.recorder import Recorder
from gpututor.trace.events import Event, Kind
from tests.unit.real.fakes import KERNEL_NS, LAUNCH_NS, Clock, Device, Working


class Watched:
    """A program on the device, and what was recorded of it."""

    def __init__(self, **options: Any) -> None:
        self.clock = Clock()
        self.device = Device(self.clock)
        self.recorder = Recorder([__file__])
        self.working = Working(self.device)
        self.options = options

    @contextmanager
    def on(self) -> Iterator[None]:
        with (
            self.working,
            observe(self.recorder, backends={"meta": self.device}, clock_ns=self.clock, **self.options),
        ):
            yield

    def events(self, *kinds: Kind) -> list[Event]:
        return [event for event in self.recorder.trace if not kinds or event.kind in kinds]


@pytest.fixture
def watched() -> Watched:
    return Watched()


def row() -> torch.Tensor:
    return torch.ones(4, device="meta")


def test_a_program_has_launches_kernels_copies_and_waits_with_times(watched: Watched) -> None:
    with watched.on():
        x = row()
        y = x + 1
        y.cpu()
    kernels = watched.events(Kind.KERNEL)
    (copy,) = watched.events(Kind.TRANSFER)
    (wait,) = watched.events(Kind.SYNCHRONISE)
    assert [one.name for one in kernels] == ["aten::ones", "aten::add"]
    assert kernels[0].end == kernels[1].start
    assert kernels[1].duration == KERNEL_NS
    assert kernels[1].launched < kernels[0].end, "the host ran ahead"
    assert kernels[1].end == copy.start
    assert copy.end == wait.end
    assert wait.start == wait.launched == copy.launched < kernels[0].end
    assert {one.line is not None for one in (*kernels, copy, wait)} == {True}


def test_item_is_a_copy_and_a_wait(watched: Watched) -> None:
    with watched.on():
        row().sum().item()
    assert [(one.kind, one.size_bytes) for one in watched.events(Kind.TRANSFER, Kind.SYNCHRONISE)] == [
        (Kind.TRANSFER, 4),
        (Kind.SYNCHRONISE, 0),
    ]
    copy, wait = watched.events(Kind.TRANSFER, Kind.SYNCHRONISE)
    assert wait.duration > 2 * KERNEL_NS
    assert copy.end == wait.end


def test_an_operator_that_needs_a_count_is_a_kernel_and_a_wait(watched: Watched) -> None:
    with watched.on():
        row().nonzero()
    assert [one.name for one in watched.events(Kind.SYNCHRONISE)] == ["aten::nonzero"]
    kernel = watched.events(Kind.KERNEL)[-1]
    assert (kernel.name, kernel.end) == ("aten::nonzero", watched.events(Kind.SYNCHRONISE)[0].end)


def test_the_stream_is_that_of_the_launch(watched: Watched) -> None:
    with watched.on():
        x = row()
        watched.device.current_stream = 3
        x + 1
    assert [one.stream for one in watched.events(Kind.KERNEL)] == [0, 3]


def test_complete_finds_out_the_times_in_the_middle_and_recording_goes_on(watched: Watched) -> None:
    with watched.on():
        row()
        assert next(iter(watched.recorder.complete())).end > 0
        row()
    assert all(one.end > one.start >= one.launched >= 0 for one in watched.events(Kind.KERNEL))
    waited = watched.device.synchronised
    watched.recorder.complete()
    assert watched.device.synchronised == waited, "after the block nobody waits"


def test_memory_is_written_down_when_it_is_taken_and_given_back(watched: Watched) -> None:
    with watched.on():
        x = torch.empty(1000, device="meta")
        y = x[:10]
        x.view(10, 100)
        del x
        y.add_(1)
        del y
    taken, freed = watched.events(Kind.ALLOCATE, Kind.FREE)
    assert (taken.kind, taken.size_bytes, taken.allocated) == (Kind.ALLOCATE, 4096, 4000)
    assert (freed.kind, freed.size_bytes, freed.allocated) == (Kind.FREE, 4096, 0)
    assert taken.line is not None
    assert freed.line == taken.line + 5
    assert freed.launched > taken.launched


def test_what_is_given_back_after_the_end_is_not_written_down(watched: Watched) -> None:
    with watched.on():
        x = row()
    seen = len(watched.recorder.trace)
    del x
    gc.collect()
    assert len(watched.recorder.trace) == seen


def test_memory_that_was_there_before_is_not_taken_again(watched: Watched) -> None:
    x = row()
    with watched.on():
        x.view(2, 2).add_(1)
        x.detach()
    assert watched.events(Kind.ALLOCATE) == []


def test_memory_can_be_left_out() -> None:
    watched = Watched(memory=False)
    with watched.on():
        row()
    assert [one.kind for one in watched.events()] == [Kind.KERNEL]


def test_without_times_the_hosts_part_is_still_known() -> None:
    watched = Watched(times=False)
    with watched.on():
        row().sum().item()
    kernels = watched.events(Kind.KERNEL)
    assert [(one.start, one.end) for one in kernels] == [(-1, -1)] * 2
    assert 0 <= kernels[0].launched < kernels[1].launched
    (wait,) = watched.events(Kind.SYNCHRONISE)
    assert wait.duration > 0
    assert watched.device.events == []


def test_memory_that_is_not_there_is_written_down_and_the_error_is_the_programs(watched: Watched) -> None:
    words = "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 2.00 GiB"
    with watched.on():
        x = row()
        watched.working.fails = torch.OutOfMemoryError(words)
        refused: list[Callable[[], object]] = [lambda: x + 1, lambda: torch.empty(7, device="meta")]
        for call in refused:
            with pytest.raises(torch.OutOfMemoryError, match=r"2\.50 GiB"):
                call()
        watched.working.fails = None
        x + 2
    short = watched.events(Kind.OUT_OF_MEMORY)
    assert [(one.size_bytes, one.allocated) for one in short] == [(5 * 2**29, 16)] * 2
    assert [one.name for one in watched.events(Kind.KERNEL)] == ["aten::ones", "aten::add"]
    assert watched.events(Kind.KERNEL)[1].end > 0


def test_how_much_was_asked_for_is_read_from_the_error() -> None:
    assert asked_for("Tried to allocate 20.00 MiB. GPU 0") == 20 * 2**20
    assert asked_for("Tried to allocate 512 bytes.") == 512
    assert asked_for("MPS backend out of memory") == 0


def test_an_operator_that_fails_is_not_recorded_and_the_next_one_is(watched: Watched) -> None:
    with watched.on():
        x = row()
        with pytest.raises(RuntimeError):
            x @ torch.ones(3, 2, device="meta")
        x + 1
    assert [one.name for one in watched.events(Kind.KERNEL)] == ["aten::ones", "aten::ones", "aten::add"]
    assert all(one.end > 0 for one in watched.events(Kind.KERNEL))


def test_a_program_that_dies_is_recorded_up_to_there_and_everything_is_undone(watched: Watched) -> None:
    before = torch.Tensor.__repr__

    def program() -> None:
        with watched.on():
            row()
            raise KeyError("learner")

    with pytest.raises(KeyError, match="learner"):
        program()
    assert watched.events(Kind.KERNEL)[0].end > 0
    assert torch.Tensor.__repr__ is before


def test_a_device_that_breaks_does_not_hide_the_programs_own_error(watched: Watched) -> None:
    def program() -> None:
        with watched.on():
            x = row()
            watched.device.broken = True
            x + 1

    with pytest.raises(RuntimeError, match="device-side assert"):
        program()
    assert [one.name for one in watched.events(Kind.KERNEL)] == ["aten::ones"]
    assert watched.events(Kind.KERNEL)[0].end == -1


class Graph:
    """Stands for `torch.cuda.CUDAGraph`."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def capture_begin(self) -> None:
        self.device.capturing = True

    def capture_end(self) -> None:
        self.device.capturing = False

    def replay(self) -> None:
        self.device.work(5 * KERNEL_NS)


def test_a_captured_graph_is_one_kernel_at_each_replay(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(calls, "_graphs_device", lambda: torch.device("meta", 0))
    with watched.on():
        x = row()
        graph = Graph(watched.device)
        graph.capture_begin()
        y = x + 1
        y.to(torch.float16)
        graph.capture_end()
        graph.replay()
        graph.replay()
    kernels = watched.events(Kind.KERNEL)
    assert [one.name for one in kernels] == ["aten::ones", "cuda graph", "cuda graph"]
    assert 5 * KERNEL_NS <= kernels[1].duration <= 5 * KERNEL_NS + LAUNCH_NS + 10
    assert kernels[2].duration == 5 * KERNEL_NS
    assert kernels[1].size_bytes == 32 + 24
    assert kernels[1].launched <= kernels[1].start < kernels[1].end == kernels[2].start


def test_ranges_of_nvtx_are_recorded_with_the_line_that_began_them(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", lambda msg: 0)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: 0)
    monkeypatch.setattr(torch.cuda.nvtx, "range_start", lambda msg: 7)
    monkeypatch.setattr(torch.cuda.nvtx, "range_end", lambda range_id: None)
    monkeypatch.setattr(torch.cuda.nvtx, "mark", lambda msg: None)
    with watched.on():
        with torch.cuda.nvtx.range("step {}", 1):
            row()
            torch.cuda.nvtx.range_push("inner")
            torch.cuda.nvtx.range_pop()
        identity = torch.cuda.nvtx.range_start("apart")
        torch.cuda.nvtx.mark("here")
        torch.cuda.nvtx.range_end(identity)
        torch.cuda.nvtx.range_push("left open")
    inner, step, here, apart = watched.events(Kind.RANGE)
    assert [one.name for one in (inner, step, here, apart)] == ["inner", "step 1", "here", "apart"]
    assert step.launched < inner.launched < inner.end < step.end <= apart.launched < here.launched < apart.end
    assert here.launched == here.end
    assert inner.line is not None
    with watched.on():
        torch.cuda.nvtx.range_pop()
    assert len(watched.events(Kind.RANGE)) == 4


def test_what_autograds_threads_launch_belongs_to_the_line_that_waits_for_them(watched: Watched) -> None:
    """On a GPU the backward pass runs in threads of autograd, where no line of the learner's runs."""
    from gpututor.devices.real.observation import Observation
    from gpututor.devices.real.observing import ObservingMode

    mode = ObservingMode(Observation(watched.recorder, known={"meta": watched.device}, clock_ns=watched.clock))
    hidden: dict[str, Any] = {"torch": torch, "mode": mode}
    exec(compile("def work():\n    with mode:\n        torch.ones(4)", "autograd", "exec"), hidden)
    thread = threading.Thread(target=hidden["work"])
    thread.start()
    thread.join()
    (kernel,) = watched.events(Kind.KERNEL)
    assert kernel.file == __file__
    assert kernel.line is not None


def test_printing_is_one_copy_and_one_wait(watched: Watched) -> None:
    class Printed(torch.Tensor):
        """The meta device cannot print, nor would it be recorded: this tensor says that it is elsewhere."""

        @property
        def device(self) -> torch.device:  # type: ignore[override]
            return torch.device("xpu", 0)

    with watched.on():
        repr(torch.ones(4).as_subclass(Printed))
    assert [(one.kind, one.name) for one in watched.events(Kind.TRANSFER, Kind.SYNCHRONISE)] == [
        (Kind.TRANSFER, "print"),
        (Kind.SYNCHRONISE, "print"),
    ]


def test_every_row_of_the_table_is_a_call_of_this_torch() -> None:
    for one in TABLE:
        owner: Any = torch
        for part in one.owner.split("."):
            owner = getattr(owner, part)
        assert one.name in vars(owner), f"torch.{one.owner}.{one.name}"


def test_a_torch_that_lacks_a_call_is_watched_without_it(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cuda, "CUDAGraph")
    monkeypatch.delattr(torch.mps, "Event")
    monkeypatch.delattr(torch.cuda.nvtx, "mark")
    with watched.on():
        row()
    assert len(watched.events(Kind.KERNEL)) == 1
    assert not hasattr(torch.cuda, "CUDAGraph")
