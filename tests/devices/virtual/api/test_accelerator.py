"""Answers of `torch.cuda` and `torch.accelerator` about the machine's GPUs."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch

from gpututor.devices.virtual import VirtualMachine, virtual_gpu
from gpututor.errors import TutorError
from gpututor.hardware.gpus import gpu_names, gpu_spec


def test_cuda_reports_count_and_names_of_gpus(two_gpus: VirtualMachine) -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 2
    assert torch.cuda.get_device_name(1) == "Tesla T4"
    assert torch.cuda.get_device_capability("cuda:0") == (7, 5)
    properties = torch.cuda.get_device_properties(0)
    assert (properties.major, properties.minor, properties.multi_processor_count) == (7, 5, 40)
    assert properties.total_memory == int(14.56 * 2**30)


def test_set_device_and_device_blocks_change_the_current_gpu(two_gpus: VirtualMachine) -> None:
    assert torch.cuda.current_device() == 0
    with torch.cuda.device(1):
        assert torch.ones(1, device="cuda").device == torch.device("cuda:1")
        assert torch.ones(1).cuda().get_device() == 1
    assert torch.cuda.current_device() == 0
    torch.cuda.set_device("cuda:1")
    assert torch.ones(1).to("cuda").device.index == 1


def test_the_accelerator_agrees_with_cuda(two_gpus: VirtualMachine) -> None:
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == 2
    assert torch.accelerator.current_accelerator() == torch.device("cuda")
    torch.accelerator.set_device_index(1)
    assert torch.cuda.current_device() == 1
    kept = torch.ones(4, device="cuda")
    assert torch.accelerator.memory_allocated(1) == torch.cuda.memory_allocated(1) == 512
    assert kept.device == torch.device(torch.accelerator.current_accelerator().type, 1)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.zeros(1, device="cuda:7"),
        lambda: torch.ones(1).cuda(7),
        lambda: torch.ones(1).to("cuda:7"),
        lambda: torch.cuda.set_device(7),
    ],
)
def test_a_missing_gpu_is_an_invalid_ordinal(two_gpus: VirtualMachine, call: object) -> None:
    assert callable(call)
    with pytest.raises(
        torch.AcceleratorError, match="CUDA error: invalid device ordinal\nGPU device may be out of range"
    ):
        call()


def test_a_machine_without_gpus_raises_cudas_error() -> None:
    with virtual_gpu(0):
        assert not torch.cuda.is_available()
        assert torch.cuda.device_count() == 0
        assert not torch.accelerator.is_available()
        assert torch.accelerator.current_accelerator(check_available=True) is None
        torch.manual_seed(1)
        for call in (
            lambda: torch.ones(1).cuda(),
            lambda: torch.zeros(1, device="cuda"),
            torch.cuda.current_device,
            torch.cuda.synchronize,
        ):
            with pytest.raises(RuntimeError, match="No CUDA GPUs are available"):
                call()


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
            with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
                torch.accelerator.current_device_index()


def test_data_loaders_pin_and_share_batches(two_gpus: VirtualMachine) -> None:
    data = torch.utils.data.TensorDataset(torch.arange(4.0))
    for workers in (0, 2):
        loader = torch.utils.data.DataLoader(data, batch_size=2, pin_memory=True, num_workers=workers)
        batches = [batch for (batch,) in loader]
        assert [batch.to("cuda", non_blocking=True).tolist() for batch in batches] == [[0.0, 1.0], [2.0, 3.0]]
        assert all(batch.is_pinned() for batch in batches)


def test_without_backends_there_is_no_accelerator() -> None:
    with virtual_gpu(backends=[]):
        assert torch.accelerator.current_accelerator() is None
        assert not torch.cuda.is_available()


def test_every_model_has_rates_and_a_source() -> None:
    for name in gpu_names():
        result = gpu_spec(name)
        assert result.memory_bytes >= 9 * 2**30
        assert result.multiprocessors >= 40
        assert len(result.source) > 20
    assert {"T4", "P100", "RTX 3080", "A100 40", "A100 80", "H100", "H200"} <= set(gpu_names())


def test_an_unknown_model_is_refused_with_a_suggestion() -> None:
    with pytest.raises(TutorError, match="No GPU is called 'H10'") as caught:
        gpu_spec("H10")
    assert "'H100'" in caught.value.advice


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")  # torch says so on every device
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("torch.cuda.ExternalStream", lambda: torch.cuda.ExternalStream(1)),
        ("torch.cuda.Event.ipc_handle", lambda: torch.cuda.Event(interprocess=True).ipc_handle()),
        ("torch.nested.nested_tensor", lambda: torch.nested.nested_tensor([torch.ones(1, device="cuda")])),
        ("quantised", lambda: torch.quantize_per_tensor(torch.ones(1, device="cuda"), 1.0, 0, torch.qint8)),
    ],
)
def test_unsupported_calls_are_refused_by_name(two_gpus: VirtualMachine, name: str, call: object) -> None:
    assert callable(call)
    with pytest.raises(NotImplementedError, match=name):
        call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: torch.cuda.ExternalStream(1), "ExternalStream. Streams of other libraries are not there"),
        (lambda: torch.cuda.cudart(), "cudart. It gives a handle for CUDA's own libraries"),
        (lambda: torch.cuda.tunable.enable(), "enable. No kernels are chosen here"),
        (
            lambda: torch.cuda.CUDAPluggableAllocator("a.so", "a", "b"),
            "CUDAPluggableAllocator. There is one allocator: leave it out.",
        ),
    ],
)
def test_a_refusal_gives_a_reason_and_an_alternative(
    two_gpus: VirtualMachine, call: Callable[[], object], words: str
) -> None:
    with pytest.raises(NotImplementedError, match=re.escape(words)):
        call()
