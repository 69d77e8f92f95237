"""Answers of `torch.cuda` and `torch.accelerator` about the machine's GPUs."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.cuda.nccl
from torch import nn
from torch.utils import benchmark

from gpututor.devices.virtual import VirtualMachine, virtual_gpu


@pytest.mark.parametrize("kind", ["mps", "xpu"])
def test_mps_and_xpu_report_themselves_available_and_refuse_tensors(kind: str) -> None:
    with virtual_gpu(backends=[kind]):
        assert not torch.cuda.is_available()
        assert torch.cuda.device_count() == 0
        assert torch.backends.mps.is_available() is (kind == "mps")
        assert torch.xpu.is_available() is (kind == "xpu")
        assert torch.xpu.device_count() == (1 if kind == "xpu" else 0)
        assert torch.accelerator.current_accelerator() == torch.device(kind)
        assert torch.accelerator.is_available()
        for call in (
            lambda: torch.ones(1, device=kind),
            lambda: torch.ones(1).to(kind),
            lambda: torch.nn.Linear(1, 1).to(torch.device(kind)),
        ):
            with pytest.raises(NotImplementedError, match=f"it cannot compute on {kind}: only choose the device"):
                call()
    assert not torch.backends.mps.is_available() or kind != "xpu"


@pytest.mark.parametrize("backends", [["mps"], ["xpu"], [], ["cuda", "mps"]])
def test_cpu_work_runs_with_every_backend(backends: list[str]) -> None:
    with virtual_gpu(1, backends=backends):
        torch.manual_seed(3)
        model = torch.nn.Linear(2, 1)
        stepper = torch.optim.Adam(model.parameters())
        model(torch.ones(1, 2)).sum().backward()
        stepper.step()
        if backends:
            torch.accelerator.synchronize()
            assert torch.accelerator.current_device_index() == 0
            assert torch.accelerator.device_count() == 1
        else:
            assert torch.accelerator.current_accelerator() is None
            assert not torch.cuda.is_available()
            with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
                torch.accelerator.current_device_index()


def _timer() -> Any:
    return benchmark.Timer("pass")


def _ones() -> torch.Tensor:
    return torch.ones(2, device="cuda")


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")  # torch says so on every device
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: torch.cuda.Event(interprocess=True).ipc_handle(), "torch.cuda.Event.ipc_handle"),
        (lambda: torch.cuda.Event.from_ipc_handle("cuda:0", b""), "torch.cuda.Event.from_ipc_handle"),
        (lambda: torch.cuda.Event(external=True), "torch.cuda.Event(external=True)"),
        (lambda: torch.cuda.nccl.unique_id(), "torch.cuda.nccl.unique_id"),
        (lambda: torch.cuda.nccl.all_reduce([_ones()]), "torch.cuda.nccl.all_reduce"),
        (lambda: torch.func.linearize(torch.sin, _ones()), "torch.func.linearize"),
        (lambda: torch.export.export(nn.ReLU(), (_ones(),)), "torch.export.export on a device"),
        (lambda: _timer().collect_callgrind(1), "torch.utils.benchmark.Timer.collect_callgrind"),
        (lambda: torch.save(_ones().untyped_storage(), io.BytesIO()), "UntypedStorage"),
        (lambda: _ones().untyped_storage()._share_cuda_(), "UntypedStorage._share_cuda_"),
        (lambda: torch.nested.nested_tensor([_ones()]), "torch.nested.nested_tensor"),
        (lambda: torch.quantize_per_tensor(_ones(), 1.0, 0, torch.qint8), "quantised"),
        (lambda: torch.cuda.ExternalStream(1), "ExternalStream. Streams of other libraries are not there"),
        (lambda: torch.cuda.cudart(), "cudart. It gives a handle for CUDA's own libraries"),
        (lambda: torch.cuda.tunable.enable(), "enable. No kernels are chosen here"),
        (
            lambda: torch.cuda.CUDAPluggableAllocator("a.so", "a", "b"),
            "CUDAPluggableAllocator. There is one allocator: leave it out.",
        ),
    ],
)
def test_unsupported_calls_are_refused_by_name_with_a_reason(
    two_gpus: VirtualMachine, call: Callable[[], object], words: str
) -> None:
    with pytest.raises(NotImplementedError, match=re.escape(words)):
        call()
