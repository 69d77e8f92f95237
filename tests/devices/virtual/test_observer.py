"""Watching real devices: what a CPU can show, and a GPU where there is one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from gpututor.devices.real import observe
from gpututor.devices.recorder import Recorder
from gpututor.trace.events import Kind
from tests.support.fake_devices import Clock, Device

has_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA GPU")


def test_kernels_on_the_cpu_are_recorded_with_bytes_and_line() -> None:
    recorder = Recorder([__file__])
    with observe(recorder):
        x = torch.ones(2, 3)
        x @ x.t()
    events = list(recorder.trace)
    assert [(event.kind, event.name, event.device) for event in events] == [
        (Kind.KERNEL, "aten::ones", "cpu"),
        (Kind.KERNEL, "aten::mm", "cpu"),
    ]
    assert events[1].size_bytes == 24 + 24 + 16
    assert events[0].line is not None
    assert events[1].line == events[0].line + 1


def test_views_scalars_and_printing_on_the_cpu_are_no_transfers_and_no_waits() -> None:
    recorder = Recorder([__file__])
    with observe(recorder):
        x = torch.ones(2, 3)
        x.view(6)[0].item()
        repr(x)
        x.tolist()
        bool(x.sum() > 0)
    assert {event.kind for event in recorder.trace} == {Kind.KERNEL}
    assert [event.name for event in recorder.trace] == ["aten::ones", "aten::sum", "aten::gt"]


def test_a_copy_to_another_kind_of_device_is_a_transfer() -> None:
    # The meta device stands for an accelerator: the CPU has no other to copy to.
    recorder = Recorder()
    with observe(recorder, backends={"meta": Device(Clock())}):
        torch.ones(4).to("meta")
        torch.ones(4).to("meta", torch.float16)
        torch.ones(4).to("meta", torch.float16, non_blocking=True)
    transfers = [event for event in recorder.trace if event.kind is Kind.TRANSFER]
    assert [(event.source, event.target, event.size_bytes) for event in transfers] == [
        ("cpu", "meta:0", 16),
        ("cpu", "meta:0", 8),
        ("cpu", "meta:0", 16),
    ]


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
    recorder = Recorder([__file__])
    with observe(recorder, backends={"meta": Device(Clock())}, memory=False):
        call(x, index)
    assert [(event.kind, event.size_bytes) for event in recorder.trace] == expected
    assert {event.device for event in recorder.trace} == {"meta:0"}


def test_nothing_is_done_on_the_meta_device() -> None:
    recorder = Recorder([__file__])
    with observe(recorder):
        x = torch.ones(4, device="meta")
        (x + 1).to("meta", torch.float16)
        torch.nn.Linear(2, 2, device="meta")(torch.ones(1, 2, device="meta"))
    assert len(recorder.trace) == 0


def test_everything_is_restored_and_off_means_off() -> None:
    before = (torch.cuda.synchronize, torch.accelerator.synchronize, torch.mps.synchronize, torch.Tensor.__repr__)
    recorder = Recorder()
    recorder.enabled = False
    with observe(recorder):
        torch.ones(2)
        assert torch.cuda.synchronize is not before[0]
    assert before == (
        torch.cuda.synchronize,
        torch.accelerator.synchronize,
        torch.mps.synchronize,
        torch.Tensor.__repr__,
    )
    assert len(recorder.trace) == 0


def test_work_on_the_cpu_has_its_times() -> None:
    recorder = Recorder([__file__])
    with observe(recorder):
        x = torch.ones(200, 200)
        x @ x
    ones, product = recorder.complete()
    assert 0 <= ones.launched == ones.start < ones.end <= product.launched == product.start < product.end
    assert product.flops == 2 * 200**3


def test_waiting_for_an_accelerator_is_recorded_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: None)
    recorder = Recorder([__file__])
    with observe(recorder):
        torch.cuda.synchronize("cuda:1")
    (event,) = recorder.trace
    assert (event.kind, event.name, event.device) == (Kind.SYNCHRONISE, "torch.cuda.synchronize", "cuda:1")


@pytest.mark.gpu
@has_gpu
def test_a_real_gpu_is_recorded_as_the_virtual_one() -> None:
    recorder = Recorder([__file__])
    with observe(recorder):
        x = torch.tensor([1.0, 2.0], device="cuda")
        (x + 1).cpu()
        x[0].item()
        torch.cuda.synchronize()
    kinds = [
        (event.kind, event.size_bytes) for event in recorder.trace if event.kind in (Kind.TRANSFER, Kind.SYNCHRONISE)
    ]
    assert kinds == [
        (Kind.TRANSFER, 8),
        (Kind.TRANSFER, 8),
        (Kind.SYNCHRONISE, 0),
        (Kind.TRANSFER, 4),
        (Kind.SYNCHRONISE, 0),
        (Kind.SYNCHRONISE, 0),
    ]


def test_the_inventory_prints_one_json_object() -> None:
    ended = subprocess.run(
        [sys.executable, "-I", "-m", "gpututor.devices.probe"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = json.loads(ended.stdout)
    assert found["torch"] == torch.__version__
    assert found["devices"][0]["name"] == "cpu"
