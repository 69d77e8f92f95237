"""Recordings of real devices: a fake device with times, the CPU, and a GPU if present."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from gpututor.devices.real import observe
from gpututor.devices.real.observation import requested_bytes
from gpututor.devices.recorder import Recorder
from gpututor.trace.events import Kind
from tests.support.fake_device_programs import Watched, observing, row
from tests.support.fake_devices import KERNEL_NS, Clock, Device
from tests.support.threads import started


def test_a_program_has_launches_kernels_copies_and_waits_with_times(watched: Watched) -> None:
    with watched.on():
        x = row()
        y = x + 1
        y.cpu()
    kernels = watched.events(Kind.KERNEL)
    (copy,) = watched.events(Kind.TRANSFER)
    (wait,) = watched.events(Kind.SYNCHRONISE)
    assert [event.name for event in kernels] == ["aten::ones", "aten::add"]
    assert kernels[0].end == kernels[1].start
    assert kernels[1].duration == KERNEL_NS
    assert kernels[1].launched < kernels[0].end, "the host ran ahead"
    assert kernels[1].end == copy.start
    assert copy.end == wait.end
    assert wait.start == wait.launched == copy.launched < kernels[0].end
    assert {event.line is not None for event in (*kernels, copy, wait)} == {True}


def test_item_is_a_copy_and_a_wait(watched: Watched) -> None:
    with watched.on():
        row().sum().item()
    copy, wait = watched.events(Kind.TRANSFER, Kind.SYNCHRONISE)
    assert (copy.kind, copy.size_bytes, wait.kind) == (Kind.TRANSFER, 4, Kind.SYNCHRONISE)
    assert wait.duration > 2 * KERNEL_NS
    assert copy.end == wait.end


def test_an_operator_that_needs_a_count_is_a_kernel_and_a_wait(watched: Watched) -> None:
    with watched.on():
        row().nonzero()
    assert [event.name for event in watched.events(Kind.SYNCHRONISE)] == ["aten::nonzero"]
    kernel = watched.events(Kind.KERNEL)[-1]
    assert (kernel.name, kernel.end) == ("aten::nonzero", watched.events(Kind.SYNCHRONISE)[0].end)


def test_the_stream_is_that_of_the_launch(watched: Watched) -> None:
    with watched.on():
        x = row()
        watched.device.current_stream = 3
        x + 1
    assert [event.stream for event in watched.events(Kind.KERNEL)] == [0, 3]


def test_complete_reads_times_while_the_recording_continues(watched: Watched) -> None:
    with watched.on():
        row()
        assert next(iter(watched.recorder.complete())).end > 0
        row()
    assert all(event.end > event.start >= event.launched >= 0 for event in watched.events(Kind.KERNEL))
    waited = watched.device.synchronized
    watched.recorder.complete()
    assert watched.device.synchronized == waited, "after the block nothing waits"


def test_memory_is_recorded_when_it_is_allocated_and_freed(watched: Watched) -> None:
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


def test_memory_from_before_and_after_the_recording_is_not_recorded(watched: Watched) -> None:
    x = row()
    with watched.on():
        x.view(2, 2).add_(1)
        x.detach()
        assert watched.events(Kind.ALLOCATE) == []
        y = row()
    seen = len(watched.recorder.trace)
    del y
    gc.collect()
    assert len(watched.recorder.trace) == seen


def test_memory_can_be_left_out() -> None:
    watched = Watched(__file__, memory=False)
    with watched.on():
        row()
    assert [event.kind for event in watched.events()] == [Kind.KERNEL]


def test_without_times_the_hosts_times_are_known() -> None:
    watched = Watched(__file__, times=False)
    with watched.on():
        row().sum().item()
    kernels = watched.events(Kind.KERNEL)
    assert [(event.start, event.end) for event in kernels] == [(-1, -1)] * 2
    assert 0 <= kernels[0].launched < kernels[1].launched
    (wait,) = watched.events(Kind.SYNCHRONISE)
    assert wait.duration > 0
    assert watched.device.events == []


def test_a_failed_allocation_is_recorded_and_raised(watched: Watched) -> None:
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
    assert [(event.size_bytes, event.allocated) for event in short] == [(5 * 2**29, 16)] * 2
    assert [event.name for event in watched.events(Kind.KERNEL)] == ["aten::ones", "aten::add"]
    assert watched.events(Kind.KERNEL)[1].end > 0


def test_memory_returned_to_make_room_is_a_wait(watched: Watched) -> None:
    with watched.on():
        x = row()
        watched.device.retries += 1
        y = row()
        z = row()
    assert [event.name for event in watched.events(Kind.SYNCHRONISE)] == ["cudaFree"]
    assert len((x, y, z)) == 3


def test_a_missing_device_is_torchs_error(watched: Watched) -> None:
    watched.working.fails = RuntimeError("nothing here")
    with watched.on(), pytest.raises(RuntimeError, match="nothing here"):
        torch.ones(4, device="meta:9")
    assert watched.events() == []


def test_values_lifted_to_a_device_are_a_copy_and_take_memory(watched: Watched) -> None:
    with watched.on():
        x = torch.ops.aten.lift_fresh(torch.ones(4, device="meta"))
        torch.ops.aten.lift_fresh(torch.ones(4))
    (copy,) = watched.events(Kind.TRANSFER)
    assert (copy.source, copy.target, copy.size_bytes, copy.asynchronous) == ("cpu", "meta:0", 16, False)
    assert copy.line is not None
    assert copy.launched > 0
    assert x.shape == (4,)
    assert watched.events(Kind.SYNCHRONISE) == []


def test_the_requested_bytes_are_read_from_the_error() -> None:
    assert requested_bytes("Tried to allocate 20.00 MiB. GPU 0") == 20 * 2**20
    assert requested_bytes("Tried to allocate 512 bytes.") == 512
    assert requested_bytes("MPS backend out of memory") == 0


def test_a_failed_operator_is_not_recorded(watched: Watched) -> None:
    with watched.on():
        x = row()
        with pytest.raises(RuntimeError):
            x @ torch.ones(3, 2, device="meta")
        x + 1
    assert [event.name for event in watched.events(Kind.KERNEL)] == ["aten::ones", "aten::ones", "aten::add"]
    assert all(event.end > 0 for event in watched.events(Kind.KERNEL))


def test_a_failing_program_is_recorded_and_patches_are_undone(watched: Watched) -> None:
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
    assert [event.name for event in watched.events(Kind.KERNEL)] == ["aten::ones"]
    assert watched.events(Kind.KERNEL)[0].end == -1


def test_work_of_autograds_threads_belongs_to_the_waiting_line(watched: Watched) -> None:
    """Run the backward pass as on a GPU: in threads of autograd, where no line of the learner's runs."""
    from gpututor.devices.real.observation import Observation
    from gpututor.devices.real.observer import ObservingMode

    mode = ObservingMode(Observation(watched.recorder, known={"meta": watched.device}, clock_ns=watched.clock))
    hidden: dict[str, Any] = {"torch": torch, "mode": mode}
    exec(compile("def work():\n    with mode:\n        torch.ones(4)", "autograd", "exec"), hidden)
    started(hidden["work"]).join()
    (kernel,) = watched.events(Kind.KERNEL)
    assert kernel.file == __file__
    assert kernel.line is not None


has_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA GPU")


def test_kernels_on_the_cpu_are_recorded_with_bytes_line_and_times() -> None:
    with observing(__file__) as recorder:
        x = torch.ones(2, 3)
        x @ x.t()
    ones, product = recorder.complete()
    assert {(event.kind, event.device) for event in (ones, product)} == {(Kind.KERNEL, "cpu")}
    assert (ones.name, product.name, product.size_bytes) == ("aten::ones", "aten::mm", 24 + 24 + 16)
    assert ones.line is not None
    assert product.line == ones.line + 1
    assert 0 <= ones.launched == ones.start < ones.end <= product.launched == product.start < product.end
    assert product.flops == 2 * 2 * 3 * 2


def test_views_scalars_and_prints_on_the_cpu_neither_copy_nor_wait() -> None:
    with observing(__file__) as recorder:
        x = torch.ones(2, 3)
        x.view(6)[0].item()
        repr(x)
        x.tolist()
        bool(x.sum() > 0)
    assert {event.kind for event in recorder.trace} == {Kind.KERNEL}
    assert [event.name for event in recorder.trace] == ["aten::ones", "aten::sum", "aten::gt"]


def test_a_copy_to_another_kind_of_device_is_a_transfer() -> None:
    # The meta device stands for an accelerator: the CPU has no other to copy to.
    with observing("", backends={"meta": Device(Clock())}) as recorder:
        torch.ones(4).to("meta")
        torch.ones(4).to("meta", torch.float16)
        torch.ones(4).to("meta", torch.float16, non_blocking=True)
    transfers = [event for event in recorder.trace if event.kind is Kind.TRANSFER]
    assert {(event.source, event.target) for event in transfers} == {("cpu", "meta:0")}
    assert [event.size_bytes for event in transfers] == [16, 8, 16]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x, i: x[i], [(Kind.TRANSFER, 16), (Kind.KERNEL, 16 + 16 + 8)]),
        (lambda x, i: torch.ops.aten.index(x, indices=[i]), [(Kind.TRANSFER, 16), (Kind.KERNEL, 16 + 16 + 8)]),
        (lambda x, i: x.index_put_([i], x[:2]), [(Kind.TRANSFER, 16), (Kind.KERNEL, 16 + 16 + 8 + 16)]),
        (lambda x, i: x[i.to("meta")], [(Kind.TRANSFER, 16), (Kind.KERNEL, 16 + 16 + 8)]),
        (lambda x, i: x + 1, [(Kind.KERNEL, 32)]),
        (lambda x, i: x.add_(1), [(Kind.KERNEL, 32)]),
        (lambda x, i: torch.cat([x, x]), [(Kind.KERNEL, 64)]),
    ],
)
def test_kernels_of_an_accelerator_are_recorded_with_the_indices_that_cross(
    call: Callable[[Tensor, Tensor], object], expected: list[tuple[Kind, int]]
) -> None:
    # The meta device stands for an accelerator.
    x, index = torch.ones(4, device="meta"), torch.tensor([0, 1])
    with observing(__file__, backends={"meta": Device(Clock())}, memory=False) as recorder:
        call(x, index)
    assert [(event.kind, event.size_bytes) for event in recorder.trace] == expected
    assert {event.device for event in recorder.trace} == {"meta:0"}


def test_nothing_is_done_on_the_meta_device() -> None:
    with observing(__file__) as recorder:
        x = torch.ones(4, device="meta")
        (x + 1).to("meta", torch.float16)
        torch.nn.Linear(2, 2, device="meta")(torch.ones(1, 2, device="meta"))
    assert len(recorder.trace) == 0


def test_everything_is_restored_and_off_means_off() -> None:
    calls = [(module, "synchronize") for module in (torch.cuda, torch.accelerator, torch.mps)]
    before = [getattr(*call) for call in (*calls, (torch.Tensor, "__repr__"))]
    recorder = Recorder()
    recorder.enabled = False
    with observe(recorder):
        torch.ones(2)
        assert torch.cuda.synchronize is not before[0]
    assert before == [getattr(*call) for call in (*calls, (torch.Tensor, "__repr__"))]
    assert len(recorder.trace) == 0


def test_waiting_for_an_accelerator_is_recorded_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: None)
    with observing(__file__) as recorder:
        torch.cuda.synchronize("cuda:1")
    (event,) = recorder.trace
    assert (event.kind, event.name, event.device) == (Kind.SYNCHRONISE, "torch.cuda.synchronize", "cuda:1")


@pytest.mark.gpu
@has_gpu
def test_a_real_gpu_is_recorded_as_the_virtual_one() -> None:
    with observing(__file__) as recorder:
        x = torch.tensor([1.0, 2.0], device="cuda")
        (x + 1).cpu()
        x[0].item()
        torch.cuda.synchronize()
    events = [event for event in recorder.trace if event.kind in (Kind.TRANSFER, Kind.SYNCHRONISE)]
    copy, wait = Kind.TRANSFER, Kind.SYNCHRONISE
    assert [event.kind for event in events] == [copy, copy, wait, copy, wait, wait]
    assert [event.size_bytes for event in events] == [8, 8, 0, 4, 0, 0]


def test_the_inventory_prints_one_json_object() -> None:
    command = [sys.executable, "-I", "-m", "gpututor.devices.probe"]
    inventory = json.loads(subprocess.check_output(command, timeout=120))
    assert inventory["torch"] == torch.__version__
    assert inventory["devices"][0]["name"] == "cpu"
